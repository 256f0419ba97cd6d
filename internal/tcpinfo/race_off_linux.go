//go:build !race

package tcpinfo

func released() {}
