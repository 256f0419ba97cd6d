//go:build !unix && !windows

package procstat

// Now gives nothing here.
func Now() Usage { return Usage{} }
