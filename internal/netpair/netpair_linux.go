package netpair

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/internal/procstat"
)

// New makes a pair. A nil cfg is the zero value. The error wraps [ErrUnsupported] where no pair can be made.
func New(cfg *Config) (*Pair, error) {
	c, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("netpair: %w: the program \"ip\" of iproute2 is not installed: %w", ErrUnsupported, err)
	}
	p := &Pair{
		A: &Host{Addr: netip.MustParseAddr("10.77.0.1"), Addr6: netip.MustParseAddr("fd77::1")},
		B: &Host{Addr: netip.MustParseAddr("10.77.0.2"), Addr6: netip.MustParseAddr("fd77::2")}, Config: c,
	}
	if err := p.setUp(); err != nil {
		return nil, fmt.Errorf("netpair: %w", errors.Join(err, p.Close()))
	}
	return p, nil
}

// setUp makes the two namespaces and the veth.
func (p *Pair) setUp() error {
	for _, h := range []*Host{p.A, p.B} {
		if err := h.space.make(); err != nil {
			return err
		}
	}
	// The other end of the veth is made in B's namespace, which is told by a file descriptor.
	if err := p.A.space.do(func() error {
		return ip(p.B.space.net, "link", "add", device, "mtu", strconv.Itoa(p.Config.MTU), "type", "veth",
			"peer", "name", device, "mtu", strconv.Itoa(p.Config.MTU), "netns", "/proc/self/fd/3")
	}); err != nil {
		return err
	}
	for _, h := range []*Host{p.A, p.B} {
		if err := h.space.do(func() error { return h.configure(&p.Config) }); err != nil {
			return err
		}
	}
	return nil
}

// configure brings the host's devices up. It runs on the host.
func (h *Host) configure(c *Config) error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "add", h.Addr.String() + "/24", "dev", device},
		{"addr", "add", h.Addr6.String() + "/64", "dev", device, "nodad"},
		{"link", "set", device, "up"},
	} {
		if err := ip(nil, args...); err != nil {
			return err
		}
	}
	if c.NoOffloads {
		if err := noOffloads(device); err != nil {
			return err
		}
	}
	if c.KernelSteering {
		return nil
	}
	return steer(device)
}

// ip runs iproute2 on the calling thread's host; file, if any, is its descriptor 3.
func ip(file *os.File, args ...string) error {
	cmd := exec.Command("ip", args...)
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// steering mounts /sys anew, which shows the devices of the namespace in which it was mounted, and lets the processors
// of a mask receive all packets of a device.
const steering = `mount -t sysfs sysfs /sys &&
for q in "/sys/class/net/$1"/queues/rx-*/rps_cpus; do echo "$2" > "$q" || exit; done`

// steer lets the last processor that this process may use receive all packets of a device. It runs on the device's
// host.
func steer(dev string) error {
	last, err := procstat.LastProcessor()
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", steering, "sh", dev, processorMask(last))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} // nobody else sees that mount
	if out, err := cmd.CombinedOutput(); err != nil {
		// Root of a user namespace may make networks, but may not say which processor does what.
		return fmt.Errorf("%w: receive packet steering takes the rights of root of the machine: %w: %s", ErrUnsupported,
			err, bytes.TrimSpace(out))
	}
	return nil
}

// processorMask is the mask of one processor as /sys has it: words of 32 bits, the highest first.
func processorMask(n int) string {
	return fmt.Sprintf("%x", uint32(1)<<(n%32)) + strings.Repeat(",00000000", n/32)
}

// Retransmissions returns how many TCP segments the two hosts have sent again since the pair was made, because they
// were lost or reordered. Loss probes are not counted: a sender makes one when an acknowledgement is late, which on
// this network means that the receiver's processor was busy.
func (p *Pair) Retransmissions() (uint64, error) {
	var again, probes uint64
	for _, h := range []*Host{p.A, p.B} {
		if err := h.Do(func() error {
			for _, c := range []struct {
				file, line, name string
				sum              *uint64
			}{{"snmp", "Tcp:", "RetransSegs", &again}, {"netstat", "TcpExt:", "TCPLossProbes", &probes}} {
				b, err := os.ReadFile("/proc/thread-self/net/" + c.file)
				if err != nil {
					return err
				}
				n, err := counter(b, c.line, c.name)
				if err != nil {
					return err
				}
				*c.sum += n
			}
			return nil
		}); err != nil {
			return 0, err
		}
	}
	return again - min(again, probes), nil // a probe can be a segment that was not sent before
}

// counter looks for a counter in the two lines of a name of /proc/net/snmp or netstat, which have names and values.
func counter(table []byte, line, name string) (uint64, error) {
	var names []string
	for text := range strings.Lines(string(table)) {
		f := strings.Fields(text)
		if len(f) == 0 || f[0] != line {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		if i := slices.Index(names, name); i >= 0 && i < len(f) {
			return strconv.ParseUint(f[i], 10, 64)
		}
	}
	return 0, fmt.Errorf("the kernel counts no %s %s", line, name)
}

// space is a network namespace, which lives as long as the file is open or something is in it.
type space struct {
	mu  sync.Mutex
	net *os.File // nil: closed
}

// make makes a new one.
func (s *space) make() error {
	return elsewhere(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = os.NewSyscallError("unshare", err)
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
				err = fmt.Errorf("%w: it takes the rights of root: %w", ErrUnsupported, err)
			}
			return err
		}
		s.net, err = current()
		return err
	})
}

// do calls f on a thread of the namespace.
func (s *space) do(f func() error) error {
	s.mu.Lock()
	if s.net == nil {
		s.mu.Unlock()
		return fmt.Errorf("netpair: %w", os.ErrClosed)
	}
	fd, err := unix.FcntlInt(s.net.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	s.mu.Unlock()
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	defer func() { _ = unix.Close(fd) }()
	return elsewhere(func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
}

func (s *space) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.net == nil {
		return nil
	}
	err := s.net.Close()
	s.net = nil
	return err
}

// current opens the network namespace of the calling thread.
func current() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// elsewhere calls f, which enters another network namespace, and takes the thread back afterwards. A thread that does
// not come back ends with its goroutine, which no other may have.
func elsewhere(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := current()
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer home.Close()
		err = f()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
