package fastcopy

import "golang.org/x/sys/cpu"

var wide = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL

// copyWide copies n octets, at least 128.
//
//go:noescape
func copyWide(dst, src *byte, n int)
