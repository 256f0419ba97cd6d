//go:build unix && !linux

package procstat

func calls() uint64 { return 0 }
