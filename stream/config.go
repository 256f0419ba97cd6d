package stream

import (
	"fmt"

	"github.com/go-iwarp/iwarp"
)

// Config configures streams. Nil, and zero in a field, mean the documented default. It is copied and not changed, and
// may be used for many connections.
type Config struct {
	// Conn configures the iWARP connection below. Its QP and PrivateData must not be set: they are the stream's.
	Conn *iwarp.Config

	// RecvBuffer is the memory in octets that a connection gives its peer to write into, and so what the peer may send
	// before the program reads. It is rounded up to a multiple of 8192. Default 1 MiB, at most 256 MiB.
	RecvBuffer int

	// Credits bounds the data messages that the peer may have under way; each uses a receive of four octets.
	// Default 128, from 16 to 32767.
	Credits int
}

const (
	defaultRecvBuffer = 1 << 20
	maxRecvBuffer     = 256 << 20
	recvBufferUnit    = 8 << 10
	defaultCredits    = 128
	minCredits        = 16
	maxCredits        = 1<<15 - 1
)

// withDefaults copies c, fills in the defaults and checks the ranges.
func (c *Config) withDefaults() (Config, error) {
	var n Config
	if c != nil {
		n = *c
	}
	n.Conn = n.Conn.Clone()
	if n.Conn == nil {
		n.Conn = &iwarp.Config{}
	}
	if n.Conn.QP != nil || n.Conn.PrivateData != nil {
		return n, fmt.Errorf("stream: Config.Conn has a QP or PrivateData: a stream has its own")
	}
	if n.RecvBuffer == 0 {
		n.RecvBuffer = defaultRecvBuffer
	}
	if n.RecvBuffer < 1 || n.RecvBuffer > maxRecvBuffer {
		return n, fmt.Errorf("stream: Config.RecvBuffer is %d: between 1 and %d", n.RecvBuffer, maxRecvBuffer)
	}
	n.RecvBuffer = (n.RecvBuffer + recvBufferUnit - 1) / recvBufferUnit * recvBufferUnit
	if n.Credits == 0 {
		n.Credits = defaultCredits
	}
	if n.Credits < minCredits || n.Credits > maxCredits {
		return n, fmt.Errorf("stream: Config.Credits is %d: between %d and %d", n.Credits, minCredits, maxCredits)
	}
	return n, nil
}
