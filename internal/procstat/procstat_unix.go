//go:build unix

package procstat

import (
	"syscall"
	"time"
)

// Now returns the use so far.
func Now() Usage {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return Usage{}
	}
	return Usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano()), Calls: calls()}
}
