//go:build !linux

package procstat

// Resident is the memory of this process in octets; 0 where the operating system does not tell.
func Resident() uint64 { return 0 }
