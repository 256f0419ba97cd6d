package iwarptest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// EventKind says what [Peer.Await] has seen.
type EventKind uint8

// What can come over a connection, or not come.
const (
	// EventSilence: nothing more came in the time given.
	EventSilence EventKind = iota
	// EventFrame: an FPDU came; its segment is in the Event.
	EventFrame
	// EventFIN: the other end closed its half. Octets of an FPDU that was not
	// finished may have come before: see Event.Err.
	EventFIN
	// EventReset: the connection was reset, or has failed in another way.
	EventReset
	// EventBadFrame: octets came that no sender may send: CRC, Markers or PAD are
	// wrong. Err tells what.
	EventBadFrame
)

// Event is what came.
type Event struct {
	Kind EventKind
	// Segment is that of an EventFrame. Of an EventBadFrame it is all that has come,
	// from the first octet of the FPDU on.
	Segment []byte
	Err     error // why: of all other kinds, where there is more to say
}

// Await waits at most d for the next FPDU or the end of the stream, and judges
// nothing: it is for tests in which several answers are legal. What came of an
// FPDU that is not whole stays for the next call.
func (p *Peer) Await(d time.Duration) Event {
	deadline := time.Now().Add(d)
	for {
		if p.In.Markers || len(p.unread) >= 2 && len(p.unread) >= 2+int(binary.BigEndian.Uint16(p.unread)) {
			segment, n, err := p.In.Unframe(p.unread)
			switch {
			case err != nil:
				return Event{Kind: EventBadFrame, Segment: bytes.Clone(p.unread), Err: err}
			case n > 0:
				p.unread = append(p.unread[:0], p.unread[n:]...)
				return Event{Kind: EventFrame, Segment: segment}
			}
		}
		if err := p.read(deadline); err != nil {
			return p.ending(err)
		}
	}
}

func (p *Peer) ending(err error) Event {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Event{Kind: EventSilence}
	case errors.Is(err, io.EOF):
		e := Event{Kind: EventFIN}
		if len(p.unread) > 0 {
			e.Err = fmt.Errorf("%d octets of an FPDU that is not whole came before the FIN", len(p.unread))
		}
		return e
	}
	return Event{Kind: EventReset, Err: err}
}

// AwaitStartup waits at most d for a startup frame, a Request or a Reply, and
// gives all of it. The error is [os.ErrDeadlineExceeded], [io.EOF] before the first
// octet, [io.ErrUnexpectedEOF] after it, that of a reset, or says that what came
// is no startup frame.
func (p *Peer) AwaitStartup(d time.Duration) ([]byte, error) {
	deadline := time.Now().Add(d)
	need := startupLen
	for {
		if n := min(len(p.unread), len(requestKey)); !bytes.HasPrefix([]byte(requestKey), p.unread[:n]) &&
			!bytes.HasPrefix([]byte(replyKey), p.unread[:n]) {
			return nil, fmt.Errorf("octets %x are no startup frame", p.unread[:min(len(p.unread), startupLen)])
		}
		if len(p.unread) >= startupLen {
			need = startupLen + int(binary.BigEndian.Uint16(p.unread[18:]))
		}
		if len(p.unread) >= need {
			return p.take(need), nil
		}
		if err := p.read(deadline); err != nil {
			if errors.Is(err, io.EOF) && len(p.unread) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// Unread returns the octets that came and that nothing has taken. They are valid
// until the next call of a method.
func (p *Peer) Unread() []byte { return p.unread }

// TrySendRaw is SendRaw that gives the error rather than fails the test: for
// octets to a peer that may have gone.
func (p *Peer) TrySendRaw(octets ...[]byte) error {
	if err := p.Conn.SetWriteDeadline(p.soon()); err != nil {
		return err
	}
	_, err := p.Conn.Write(bytes.Join(octets, nil))
	return err
}

// TrySend is Send that gives the error.
func (p *Peer) TrySend(segments ...[]byte) error {
	fpdus := make([][]byte, len(segments))
	for i, s := range segments {
		fpdus[i] = p.Out.Frame(s)
	}
	return p.TrySendRaw(fpdus...)
}

// Agree sets the framing of both directions as the two startup frames say, for
// one that was exchanged without [Peer.Respond] or [Peer.Initiate]. initiator
// says which end this peer is. A frame that ends before its flags has none.
func (p *Peer) Agree(request, reply []byte, initiator bool) {
	mine, theirs := request, reply
	if !initiator {
		mine, theirs = reply, request
	}
	p.agree(request, reply, flagsOf(theirs)&FlagM != 0, flagsOf(mine)&FlagM != 0)
}

// Reset is Abort that does not fail the test.
func (p *Peer) Reset() error {
	return errors.Join(setLinger(p.Conn, 0), p.Conn.Close())
}
