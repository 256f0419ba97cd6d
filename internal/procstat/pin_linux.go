package procstat

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pin holds the calling thread, and the threads and processes that it starts, on
// one processor: the last of those that it may use.
func Pin() error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	last := -1
	for i := range 8 * int(unsafe.Sizeof(set)) {
		if set.IsSet(i) {
			last = i
		}
	}
	if last < 0 {
		last = runtime.NumCPU() - 1
	}
	set.Zero()
	set.Set(last)
	return unix.SchedSetaffinity(0, &set)
}
