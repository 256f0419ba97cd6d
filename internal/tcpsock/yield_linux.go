package tcpsock

import "golang.org/x/sys/unix"

// Yield lets another thread have the processor, if one wants it.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
