//go:build !race

package fastcopy

func touch(_, _ []byte) {}
