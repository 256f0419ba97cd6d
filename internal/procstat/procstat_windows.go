package procstat

import (
	"syscall"
	"time"
)

// Now returns the use so far.
func Now() Usage {
	h, err := syscall.GetCurrentProcess()
	if err != nil {
		return Usage{}
	}
	var made, ended, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(h, &made, &ended, &kernel, &user) != nil {
		return Usage{}
	}
	return Usage{CPU: span(kernel) + span(user)}
}

// span returns a Filetime that counts 100 ns steps as a duration.
func span(t syscall.Filetime) time.Duration {
	return time.Duration(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime)) * 100
}
