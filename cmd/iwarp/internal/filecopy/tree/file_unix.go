//go:build unix

package tree

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lock makes f this process's until it is closed, and reports whether it could.
func lock(f *os.File) bool {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	return err == nil || errors.Is(err, errors.ErrUnsupported) // a file system without locks
}

// mapFile maps a file for reading.
func mapFile(f *os.File, size int64) ([]byte, error) {
	if size == 0 || size > math.MaxInt {
		return nil, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		_ = unix.Madvise(b, unix.MADV_SEQUENTIAL)
	}
	return b, err
}

func unmapFile(b []byte) error {
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}

// allocated returns how many octets a file has on the disk.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return 0
}

// fileID tells files apart, of which one may have several names.
type fileID struct{ dev, ino uint64 }

// identify returns the identity of a file, and whether it has several names.
func identify(info fs.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, st.Nlink > 1 //nolint:unconvert // their types differ between systems
}

// linkTime sets the time of a symbolic link itself.
func linkTime(r *os.Root, name string, t time.Time) error {
	f, err := r.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := unix.TimeToTimespec(t)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(int(f.Fd()), name, []unix.Timespec{m, m}, unix.AT_SYMLINK_NOFOLLOW)
}
