package bench

import (
	"os"
	"runtime"
	"syscall"

	"github.com/go-iwarp/iwarp/internal/procstat"
)

// pinnedEnv marks a process that has been started anew on one processor.
const pinnedEnv = "IWARP_BENCH_PINNED"

// onOneCPU starts this program anew in the same process, on the last processor
// that it may use. Go must start there: it counts the processors only once.
func onOneCPU() error {
	if os.Getenv(pinnedEnv) != "" {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := procstat.Pin(); err != nil {
		return err
	}
	return syscall.Exec(exe, os.Args, append(os.Environ(), pinnedEnv+"=1"))
}
