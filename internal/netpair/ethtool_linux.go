package netpair

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The commands of SIOCETHTOOL that set one offload, from linux/ethtool.h, which x/sys has not.
var offloads = []struct {
	name string
	set  uint32
}{
	{"TSO", 0x1f},
	{"GSO", 0x24},
	{"GRO", 0x2c},
}

// ethtoolValue is struct ethtool_value.
type ethtoolValue struct{ cmd, data uint32 }

// ethtoolRequest is struct ifreq as SIOCETHTOOL reads it: a name and a pointer in a union of 24 octets at most.
type ethtoolRequest struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// noOffloads turns the segmentation and receive offloads of a device off. It runs on the device's host.
func noOffloads(dev string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(fd) }()
	for _, o := range offloads {
		value := ethtoolValue{cmd: o.set}
		req := ethtoolRequest{data: unsafe.Pointer(&value)}
		copy(req.name[:unix.IFNAMSIZ-1], dev)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
		runtime.KeepAlive(&value)
		if errno != 0 {
			return fmt.Errorf("turning %s of %s off: %w", o.name, dev, os.NewSyscallError("ioctl", errno))
		}
	}
	return nil
}
