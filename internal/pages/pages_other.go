//go:build !linux

package pages

func hugeSize() int { return 0 }

func aligned(n, _ int) ([]byte, bool) { return make([]byte, n), false }
