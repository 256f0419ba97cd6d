//go:build linux || darwin || freebsd

package tree

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// nextData returns the next range of data of a file at or behind off; from is
// math.MaxInt64 if there is none. ok is false if that cannot be told.
func nextData(f *os.File, off int64) (from, to int64, ok bool) {
	fd := int(f.Fd())
	from, err := unix.Seek(fd, off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return math.MaxInt64, math.MaxInt64, true
	}
	if err != nil {
		return 0, 0, false
	}
	to, err = unix.Seek(fd, from, unix.SEEK_HOLE)
	return from, to, err == nil
}
