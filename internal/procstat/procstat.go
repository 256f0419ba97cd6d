// Package procstat tells what this process has used so far: processor time, and
// system calls that read and write. It is for measuring.
package procstat

import "time"

// Usage is what the process has used since its start.
type Usage struct {
	CPU time.Duration // of all threads, in user and system mode
	// Calls is the number of read and write system calls, those that found nothing
	// to do included; sendmsg and its like are not among them. 0 where the
	// operating system does not tell.
	Calls uint64
}

// Sub returns what was used between old and u.
func (u Usage) Sub(old Usage) Usage { return Usage{CPU: u.CPU - old.CPU, Calls: u.Calls - old.Calls} }
