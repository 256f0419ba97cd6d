//go:build race

package fastcopy

import (
	"runtime"
	"unsafe"
)

// touch tells the race detector, which does not see what assembly does, that src is
// read and dst written.
func touch(dst, src []byte) {
	runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(src)), len(src))
	runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(dst)), len(dst))
}
