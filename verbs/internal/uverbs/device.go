// Package uverbs is what stands behind /dev/infiniband/uverbs0: it executes the commands
// that libibverbs writes, and moves work requests and completions between librxe's
// queues and package iwarp. It knows nothing of C: commands come as octets, the program's
// memory as addresses in this process.
package uverbs

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
)

// Config configures a Device. All may be nil.
type Config struct {
	Logger *slog.Logger
	// Bell is called after each completion that was put into a queue.
	Bell func()
}

// Device is the one RDMA device of the process. Files are opened on it.
type Device struct {
	dev    *iwarp.Device
	logger *slog.Logger
	bell   func()

	memory regions
	last   atomic.Uint32 // QPN, and number of an SRQ

	mu  sync.RWMutex
	qps map[uint32]*QP // by QPN, for rdma_cm
}

// NewDevice makes a device.
func NewDevice(cfg Config) (*Device, error) {
	dev, err := iwarp.NewDevice(&iwarp.DeviceConfig{Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	d := &Device{dev: dev, logger: cfg.Logger, bell: cfg.Bell, qps: make(map[uint32]*QP)}
	if d.bell == nil {
		d.bell = func() {}
	}
	if d.logger == nil {
		d.logger = slog.New(slog.DiscardHandler)
	}
	d.memory.byKey = make(map[uint32]*mr)
	return d, nil
}

// IWARP is the device of package iwarp.
func (d *Device) IWARP() *iwarp.Device { return d.dev }

// Logger is never nil.
func (d *Device) Logger() *slog.Logger { return d.logger }

// QP returns the queue pair with a number, nil if there is none.
func (d *Device) QP(qpn uint32) *QP {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.qps[qpn]
}

// number is a new QPN.
func (d *Device) number() uint32 {
	for {
		if n := d.last.Add(1) & 0xffffff; n > 1 {
			return n
		}
	}
}

// errno is what the kernel would return for an error of package iwarp.
func errno(err error) unix.Errno {
	var e unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e
	case errors.Is(err, iwarp.ErrInUse):
		return unix.EBUSY
	case errors.Is(err, iwarp.ErrInvalidWR):
		return unix.EINVAL
	}
	return unix.ENOMEM
}

// The limits of the device, which are rxe's order of magnitude.
const (
	maxSGE    = 32
	maxWR     = 16384
	maxInline = 1024
	minInline = 64
	maxCQE    = 1 << 20
	maxReads  = 128
)

// GUID is the device's, as in the sysfs folder beside the libraries.
var GUID = [8]byte{0x02, 0, 0, 0, 0, 0, 0, 0x01}
