package fault

import (
	"errors"

	"golang.org/x/sys/windows"
)

// IsFault reports whether a system call has failed because memory was not there.
func IsFault(err error) bool { return errors.Is(err, windows.WSAEFAULT) }
