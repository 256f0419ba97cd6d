//go:build !unix && !windows

package fault

// IsFault is false where nothing is known of system calls.
func IsFault(error) bool { return false }
