//go:build !unix && !windows

package procstat

// Now returns nothing here.
func Now() Usage { return Usage{} }
