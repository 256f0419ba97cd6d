package iwarptest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Defaults of [Peer].
const (
	DefaultTimeout = 10 * time.Second
	DefaultIdle    = 50 * time.Millisecond
)

// Peer is one end of an iWARP connection, played by a test. It sends exactly what
// the test says and fails the test, through Fatalf, when something else comes
// than the test wants; why, the first argument of each want, leads the message.
//
// It reads strictly: an FPDU whose CRC, Markers or PAD are not what a sender must
// send fails the test. It belongs to one goroutine.
type Peer struct {
	// Conn is the peer's end of the connection.
	Conn net.Conn
	// Out frames what Send sends, and In what comes; [Peer.Respond] and
	// [Peer.Initiate] set them as the startup frames say.
	Out, In Framer
	// Timeout is how long a want waits and a Send may take; 0 means
	// [DefaultTimeout]. In a synctest bubble a connection that is stuck has it at
	// once.
	Timeout time.Duration
	// Idle is how long WantIdle listens; 0 means [DefaultIdle]. In a synctest bubble
	// it costs no time, and no octet that is sent without a Delay can be missed.
	Idle time.Duration

	t      TB
	unread []byte // came, not yet taken by a want
	end    error  // why no more octets come
}

// NewPeer returns a peer at one end of a connection, which is closed when the test
// ends.
func NewPeer(t TB, conn net.Conn) *Peer {
	t.Cleanup(func() { _ = conn.Close() })
	return &Peer{Conn: conn, t: t}
}

// SendRaw writes octets as they are, all in one Write.
func (p *Peer) SendRaw(octets ...[]byte) {
	p.t.Helper()
	if err := p.Conn.SetWriteDeadline(p.soon()); err != nil {
		p.t.Fatalf("peer: SetWriteDeadline: %v", err)
	}
	b := bytes.Join(octets, nil)
	if n, err := p.Conn.Write(b); err != nil {
		p.t.Fatalf("peer: sent %d of %d octets: %v", n, len(b), err)
	}
}

// Send frames each segment and writes the FPDUs, all in one Write.
func (p *Peer) Send(segments ...[]byte) {
	p.t.Helper()
	fpdus := make([][]byte, len(segments))
	for i, s := range segments {
		fpdus[i] = p.Out.Frame(s)
	}
	p.SendRaw(fpdus...)
}

// Respond is the responder's part of the startup: it waits for a Request, sends
// the reply and gives the Request. Markers and CRC are from then on as the two
// frames agree; a reply that ends before its flags sets none.
func (p *Peer) Respond(why string, reply []byte) (request []byte) {
	p.t.Helper()
	request = p.WantStartup(why, requestKey)
	p.SendRaw(reply)
	p.agree(request, reply, flagsOf(request)&FlagM != 0, flagsOf(reply)&FlagM != 0)
	return request
}

// Initiate is the initiator's part of the startup: it sends the request, waits
// for a Reply and gives it.
func (p *Peer) Initiate(why string, request []byte) (reply []byte) {
	p.t.Helper()
	p.SendRaw(request)
	reply = p.WantStartup(why, replyKey)
	p.agree(request, reply, flagsOf(reply)&FlagM != 0, flagsOf(request)&FlagM != 0)
	return reply
}

// agree sets both directions: M is the wish of the frame's sender for what it
// receives, CRC is on when either end wants it.
func (p *Peer) agree(request, reply []byte, outMarkers, inMarkers bool) {
	noCRC := (flagsOf(request)|flagsOf(reply))&FlagC == 0
	p.Out = Framer{Markers: outMarkers, NoCRC: noCRC}
	p.In = Framer{Markers: inMarkers, NoCRC: noCRC}
}

// WantStartup waits for a startup frame with that key, "MPA ID Req Frame" or "MPA
// ID Rep Frame", and gives all of it.
func (p *Peer) WantStartup(why, key string) []byte {
	p.t.Helper()
	head := p.need(why, "a startup frame", startupLen)
	if got := string(head[:16]); got != key {
		p.t.Fatalf("%s: startup frame with key %q, want %q", why, got, key)
	}
	size := startupLen + int(binary.BigEndian.Uint16(head[18:]))
	return p.take(len(p.need(why, "Private Data", size)))
}

// WantRaw waits for exactly these octets.
func (p *Peer) WantRaw(why string, want []byte) {
	p.t.Helper()
	got := p.take(len(p.need(why, "octets", len(want))))
	if !bytes.Equal(got, want) {
		p.t.Fatalf("%s: got octets %x\nwant %x", why, got, want)
	}
}

// Frame waits for the next FPDU and gives its segment.
func (p *Peer) Frame(why string) []byte {
	p.t.Helper()
	deadline := p.soon()
	for {
		segment, n, err := p.In.Unframe(p.unread)
		if err != nil {
			p.t.Fatalf("%s: bad FPDU: %v", why, err)
		}
		if n > 0 {
			p.take(n)
			return segment
		}
		if err := p.read(deadline); err != nil {
			p.t.Fatalf("%s: want an FPDU, have %d octets of one and no more come: %v", why, len(p.unread), err)
		}
	}
}

// WantFrame waits for the next FPDU and wants its segment to be want.
func (p *Peer) WantFrame(why string, want []byte) {
	p.t.Helper()
	if got := p.Frame(why); !bytes.Equal(got, want) {
		p.t.Fatalf("%s:\ngot  %s\nwant %s", why, Describe(got), Describe(want))
	}
}

// WantTerminate waits for the next FPDU, wants it to be a Terminate with that
// code (as in [Terminate]) and gives what follows the DDP header.
func (p *Peer) WantTerminate(why string, code uint16) []byte {
	p.t.Helper()
	got := p.Frame(why)
	head := Untagged(UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1}, nil)
	if len(got) < len(head)+4 || !bytes.Equal(got[:len(head)], head) {
		p.t.Fatalf("%s: got %s, want Terminate %04x", why, Describe(got), code)
	}
	body := got[len(head):]
	if c := binary.BigEndian.Uint16(body); c != code {
		p.t.Fatalf("%s: Terminate %04x, want %04x", why, c, code)
	}
	return body
}

// WantIdle wants nothing to come, neither octets nor the end of the stream, for
// the time of Idle.
func (p *Peer) WantIdle(why string) {
	p.t.Helper()
	idle := p.Idle
	if idle <= 0 {
		idle = DefaultIdle
	}
	if len(p.unread) == 0 {
		err := p.read(time.Now().Add(idle))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			p.t.Fatalf("%s: want silence, got the end: %v", why, err)
		}
	}
	p.t.Fatalf("%s: want silence, got %s", why, p.rest())
}

// WantEOF wants the stream to end with a FIN, and nothing before it.
func (p *Peer) WantEOF(why string) {
	p.t.Helper()
	if err := p.wantEnd(why, "the peer's FIN"); !errors.Is(err, io.EOF) {
		p.t.Fatalf("%s: want the peer's FIN, got %v", why, err)
	}
}

// WantReset wants the connection to be reset, and nothing before that.
func (p *Peer) WantReset(why string) {
	p.t.Helper()
	if err := p.wantEnd(why, "a reset"); !isReset(err) {
		p.t.Fatalf("%s: want a reset, got %v", why, err)
	}
}

// wsaECONNRESET is what a reset is on Windows, where syscall.ECONNRESET is a
// number that no call returns.
const wsaECONNRESET = syscall.Errno(10054)

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, wsaECONNRESET)
}

func (p *Peer) wantEnd(why, what string) error {
	p.t.Helper()
	deadline := p.soon()
	for len(p.unread) == 0 {
		if err := p.read(deadline); err != nil {
			return err
		}
	}
	p.t.Fatalf("%s: want %s, got %s", why, what, p.rest())
	return nil
}

// CloseWrite sends a FIN.
func (p *Peer) CloseWrite() {
	p.t.Helper()
	if err := closeWrite(p.Conn); err != nil {
		p.t.Fatalf("peer: CloseWrite: %v", err)
	}
}

// Abort resets the connection.
func (p *Peer) Abort() {
	p.t.Helper()
	if err := errors.Join(setLinger(p.Conn, 0), p.Conn.Close()); err != nil {
		p.t.Fatalf("peer: reset: %v", err)
	}
}

// rest describes what has come: the segment of a whole FPDU, or octets.
func (p *Peer) rest() string {
	in := p.In
	if segment, n, err := in.Unframe(p.unread); err == nil && n > 0 {
		return "FPDU of " + Describe(segment)
	}
	const shown = 64
	if len(p.unread) > shown {
		return "octets " + hex.EncodeToString(p.unread[:shown]) + "..."
	}
	return "octets " + hex.EncodeToString(p.unread)
}

// need waits until n octets are there and gives them, without taking them.
func (p *Peer) need(why, what string, n int) []byte {
	p.t.Helper()
	deadline := p.soon()
	for len(p.unread) < n {
		if err := p.read(deadline); err != nil {
			p.t.Fatalf("%s: want %s, have %d of %d octets (%x) and no more come: %v", why, what, len(p.unread), n,
				p.unread, err)
		}
	}
	return p.unread[:n]
}

// take removes n octets and gives a copy of them.
func (p *Peer) take(n int) []byte {
	b := bytes.Clone(p.unread[:n])
	p.unread = append(p.unread[:0], p.unread[n:]...)
	return b
}

// read waits for octets, at least one unless there is an error.
func (p *Peer) read(deadline time.Time) error {
	if p.end != nil {
		return p.end
	}
	if err := p.Conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	var buf [16 << 10]byte
	n, err := p.Conn.Read(buf[:])
	p.unread = append(p.unread, buf[:n]...)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		p.end = err
	}
	if n > 0 {
		return nil
	}
	return err
}

func (p *Peer) soon() time.Time {
	timeout := p.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return time.Now().Add(timeout)
}
