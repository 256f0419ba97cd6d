package cli

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/pages"
	"github.com/go-iwarp/iwarp/internal/tcpsock"
)

// What the two ends of a bench say to each other. Every TCP connection to a server
// begins with a preface of 16 octets:
//
//	"IWB1", what it is ('C' control, 'I' iWARP, 'T' plain TCP), 3 octets of zero,
//	the token of the session, 4 octets, and which of its connections it is, 4 octets
//
// The control connection goes on with requests and replies in JSON, the others with
// what they are.
const prefaceLen = 16

type preface struct {
	kind         linkKind
	token, index uint32
}

// linkKind says what a connection is.
type linkKind byte

const (
	linkControl linkKind = 'C'
	linkIWARP   linkKind = 'I'
	linkTCP     linkKind = 'T'
)

func (p preface) write(w io.Writer) error {
	b := append([]byte("IWB1"), byte(p.kind), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, p.token)
	b = binary.BigEndian.AppendUint32(b, p.index)
	_, err := w.Write(b)
	return err
}

func readPreface(r io.Reader) (preface, error) {
	var b [prefaceLen]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return preface{}, fmt.Errorf("preface of bench: %w", err)
	}
	if string(b[:4]) != "IWB1" {
		return preface{}, fmt.Errorf("preface of bench is %q: the other end is no \"iwarp bench\" of this version", b[:4])
	}
	return preface{linkKind(b[4]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}, nil
}

// benchSpec is what both ends must know of the work.
type benchSpec struct {
	Op         benchOp `json:"op"`
	Size       int     `json:"size"`
	Depth      int     `json:"depth"`
	Conns      int     `json:"conns"`
	Bidi       bool    `json:"bidi"`
	Lat        bool    `json:"lat"`
	Poll       bool    `json:"poll"`
	Congestion string  `json:"congestion"`
	HugePages  bool    `json:"huge_pages"`
	Buffered   bool    `json:"buffered"`
}

// maxHugeConns is for how many connections a server takes huge pages: a MiB takes
// up to four there.
const maxHugeConns = 16

// memory gives n octets for messages, and says whether they lie in huge pages.
func (s *benchSpec) memory(n int) ([]byte, bool) {
	if !s.HugePages || s.Conns > maxHugeConns {
		return make([]byte, n), false
	}
	return pages.Huge(n)
}

// check refuses what would take too much of a server.
func (s *benchSpec) check() error {
	if s.Size < 1 || s.Size > maxBenchOctets || s.Depth < 1 || s.Depth > maxBenchDepth || s.Conns < 1 || s.Conns > maxBenchConns ||
		s.Size*s.Conns > 4*maxBenchOctets {
		return fmt.Errorf("size %d, depth %d, %d connections: too much", s.Size, s.Depth, s.Conns)
	}
	return nil
}

// What a client asks of a server.
const (
	doHello     = "hello"     // gives the machine
	doOpen      = "open"      // gives a token for the connections that follow
	doConnected = "connected" // the connections are there: exchanges regions
	doStart     = "start"     // a sample of so many messages begins
	doStop      = "stop"      // waits for its end, and gives what it has used
	doClose     = "close"     // the connections of a kind are not needed any more
)

// benchMsg is a request or a reply; each uses some of the fields.
type benchMsg struct {
	Do      string               `json:"do,omitempty"`
	Error   string               `json:"error,omitempty"`
	Kind    linkKind             `json:"kind,omitempty"`
	Spec    *benchSpec           `json:"spec,omitempty"`
	Token   uint32               `json:"token,omitempty"`
	Regions []iwarp.RemoteBuffer `json:"regions,omitempty"`
	Count   uint64               `json:"count,omitempty"`
	Machine *machine             `json:"machine,omitempty"`
	Usage   benchUsage           `json:"usage"`
}

// benchUsage is what one end has used during a sample.
type benchUsage struct {
	CPU    time.Duration `json:"cpu_ns"`
	Allocs uint64        `json:"allocs"`
	Calls  uint64        `json:"calls"`
	FPDUs  uint64        `json:"fpdus"`   // sent
	Whole  uint64        `json:"aligned"` // of them, in one TCP segment
}

func (u benchUsage) plus(v benchUsage) benchUsage {
	return benchUsage{u.CPU + v.CPU, u.Allocs + v.Allocs, u.Calls + v.Calls, u.FPDUs + v.FPDUs, u.Whole + v.Whole}
}

// control is an end of the control connection.
type control struct {
	nc  net.Conn
	enc *json.Encoder
	dec *json.Decoder
}

func newControl(nc net.Conn) *control {
	return &control{nc, json.NewEncoder(nc), json.NewDecoder(nc)}
}

// ask sends a request and waits for the reply.
func (c *control) ask(ctx context.Context, m benchMsg) (benchMsg, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var reply benchMsg
	if err := c.enc.Encode(m); err != nil {
		return reply, fmt.Errorf("%s: %w", m.Do, causeOf(ctx, err))
	}
	if err := c.dec.Decode(&reply); err != nil {
		return reply, fmt.Errorf("%s: no reply of the other end: %w", m.Do, causeOf(ctx, err))
	}
	if reply.Error != "" {
		return reply, fmt.Errorf("the other end: %s", reply.Error)
	}
	return reply, nil
}

// congestions are the congestion controls to use, best first. The usual default of
// a server, bbr, paces loopback by timers.
var congestions = []string{"cubic", "reno"}

// setCongestion sets want, or the best that may be set if want is "", and gives
// what the socket has then; "" where nobody can tell.
func setCongestion(nc net.Conn, want string) string {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return ""
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return ""
	}
	list := congestions
	if want != "" {
		list = []string{want}
	}
	for _, name := range list {
		if tcpsock.SetCongestion(rc, name) == nil {
			break
		}
	}
	name, err := tcpsock.Congestion(rc)
	if err != nil {
		return ""
	}
	return name
}
