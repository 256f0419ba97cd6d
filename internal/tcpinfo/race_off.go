//go:build unix && !(race && linux)

package tcpinfo

func acquired() {}
