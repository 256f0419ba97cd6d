package tcpsock

import "net"

// unpaced are congestion controls that send as fast as the window allows, best
// first. The usual default of a server, bbr, paces a connection over loopback by
// timers and halves it.
var unpaced = []string{"cubic", "reno"}

// SetUnpaced sets the first congestion control of those that do not pace and that
// this process may set, and returns what the socket has then: "" where nobody can
// tell.
func SetUnpaced(nc net.Conn) string { return setOneOf(nc, unpaced) }

// SetNamed sets the congestion control want, and returns what the socket has then:
// "" where nobody can tell.
func SetNamed(nc net.Conn, want string) string { return setOneOf(nc, []string{want}) }

func setOneOf(nc net.Conn, names []string) string {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return ""
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return ""
	}
	for _, name := range names {
		if SetCongestion(rc, name) == nil {
			break
		}
	}
	name, err := Congestion(rc)
	if err != nil {
		return ""
	}
	return name
}
