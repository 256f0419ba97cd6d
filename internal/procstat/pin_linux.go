package procstat

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// LastProcessor returns the number, from 0, of the last processor that the calling thread may use.
func LastProcessor() (int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, err
	}
	for i := 8*int(unsafe.Sizeof(set)) - 1; i >= 0; i-- {
		if set.IsSet(i) {
			return i, nil
		}
	}
	return runtime.NumCPU() - 1, nil
}

// Pin holds the calling thread, and the threads and processes that it starts, on
// one processor: the last of those that it may use.
func Pin() error {
	last, err := LastProcessor()
	if err != nil {
		return err
	}
	var set unix.CPUSet
	set.Set(last)
	return unix.SchedSetaffinity(0, &set)
}
