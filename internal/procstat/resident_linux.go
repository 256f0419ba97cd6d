package procstat

import (
	"bytes"
	"os"
	"strconv"
)

// Resident is the memory of this process in octets; 0 where the operating system does not tell.
func Resident() uint64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseUint(string(f[1]), 10, 64)
	return n * uint64(os.Getpagesize())
}
