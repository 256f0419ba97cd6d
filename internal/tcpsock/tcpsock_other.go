//go:build !linux

package tcpsock

// CanSend is true where [Socket.Send] works.
const CanSend = false

type sender struct{}

func (*sender) init() {}

// SendCalls is 0 here.
func (*sender) SendCalls() uint64 { return 0 }

// Send is not offered here: use [net.Buffers].
func (*Socket) Send([][]byte, bool, bool) (int, error) {
	return 0, &UnsupportedError{Feature: "a gather write that ends a segment"}
}

// SendSegments is not offered here.
func (*Socket) SendSegments([][]byte, []int, int, bool, bool) (int, error) {
	return 0, &UnsupportedError{Feature: "a gather write that ends segments"}
}

// Unsent is not offered here.
func (*Socket) Unsent() (int, error) { return 0, &UnsupportedError{Feature: "SIOCOUTQNSD"} }

type mssProbe struct{}

func (*mssProbe) init() {}

// MSS is not offered here: derive a likely size from the MTU.
func (*Socket) MSS() (int, error) { return 0, &UnsupportedError{Feature: "TCP_MAXSEG"} }

// Retransmits is not offered here.
func (*Socket) Retransmits() (uint64, error) { return 0, &UnsupportedError{Feature: "TCP_INFO"} }
