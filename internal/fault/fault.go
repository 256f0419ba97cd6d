// Package fault turns accesses to memory that is not there into errors: a mapped
// file that has been truncated (SIGBUS), memory that has been unmapped (SIGSEGV).
// By default such an access ends the process, and no program can recover from it.
//
// Whoever is about to touch memory that belongs to somebody else does this:
//
//	func (x *X) f() (err error) {
//		defer x.catch(fault.Guard(), &err)
//		...
//	}
//
//	func (x *X) catch(was bool, err *error) {
//		fault.Unguard(was)
//		if x.touching { // else a panic is none of ours, and goes on as it is
//			...
//			*err = fault.Of(recover())
//		}
//	}
//
// What is left half-done then is for x to tidy up. The guard holds for one
// goroutine. It costs a few nanoseconds, so that what is done very often is guarded
// many at a time.
package fault

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/go-iwarp/iwarp/internal/fastcopy"
)

// Error says that memory is not there.
type Error struct {
	Addr uintptr // the address that was touched
}

// Error names the address.
func (e *Error) Error() string {
	return fmt.Sprintf("iwarp: memory at address %#x is not there: it was unmapped, or the file behind it has become "+
		"shorter",
		e.Addr)
}

// Guard has faults of this goroutine panic from now on, and reports whether they
// did before.
func Guard() (was bool) { return debug.SetPanicOnFault(true) }

// Unguard ends what Guard began.
func Unguard(was bool) { debug.SetPanicOnFault(was) }

// Of returns the fault that r, which recover has returned, tells of; nil if there was
// no panic. Any other panic goes on.
func Of(r any) *Error {
	if r == nil {
		return nil
	}
	if e, ok := r.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		return &Error{Addr: e.Addr()}
	}
	panic(r)
}

// Copy is [fastcopy.Copy], guarded. After an error some octets may have been copied.
func Copy(dst, src []byte) (n int, err error) {
	was, done := Guard(), false
	defer func() {
		Unguard(was)
		if !done { // recover would take longer than all the rest
			if e := Of(recover()); e != nil {
				err = e
			}
		}
	}()
	n = fastcopy.Copy(dst, src)
	done = true
	return n, nil
}

func catch(was bool, err *error) {
	Unguard(was)
	if e := Of(recover()); e != nil {
		*err = e
	}
}

// Find touches each page of all pieces and returns the first fault, nil if there
// is none. It tells what a system call, which says only that something was not
// there, has stumbled over.
func Find(pieces [][]byte) *Error {
	for _, p := range pieces {
		if err := touch(p); err != nil {
			var e *Error
			errors.As(err, &e)
			return e
		}
	}
	return nil
}

func touch(p []byte) (err error) {
	defer catch(Guard(), &err)
	if len(p) == 0 {
		return nil
	}
	var sum byte
	page := os.Getpagesize()
	for i := 0; i < len(p); i += page {
		sum |= p[i]
	}
	sum |= p[len(p)-1]
	runtime.KeepAlive(sum)
	return nil
}

// Within reports whether the address is in p.
func (e *Error) Within(p []byte) bool {
	return len(p) > 0 && e.Addr-uintptr(unsafe.Pointer(unsafe.SliceData(p))) < uintptr(len(p))
}
