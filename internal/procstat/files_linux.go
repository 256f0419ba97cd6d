package procstat

import "golang.org/x/sys/unix"

// RaiseFiles lets this process, and those that it starts from then on, have n open files, and returns how many it may
// have. More than the hard limit takes the rights of root.
func RaiseFiles(n uint64) (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	if limit.Cur >= n {
		return limit.Cur, nil
	}
	want := unix.Rlimit{Cur: n, Max: max(limit.Max, n)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &want); err != nil {
		return limit.Max, err
	}
	return n, nil
}
