//go:build !race

package tcpsock

func released() {}
