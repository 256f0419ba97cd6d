package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-iwarp/iwarp"
)

// Messages carries whole messages, in order, each way on a stream. Any number of goroutines may send and receive. A
// sender that is faster than its receiver waits: a message needs no receive buffer at the peer, as a Send does, and so
// none can be missing. Nothing else may read or write the stream.
type Messages struct {
	c       *Conn
	max     uint32
	sending chan struct{} // holds a token while somebody sends
	taking  chan struct{} // likewise receives

	abandoned bool // the sender's: the latest message is not whole and will not be

	// The receiver's: the message that is coming.
	head  [frameLen]byte
	got   int    // octets of head
	total uint32 // of the message
	have  uint32 // octets of it that have been read
	left  uint32 // of the fragment
	begun bool   // a fragment of it has come
	kept  []byte // the octets that have been read, between two calls
	bad   error  // the peer broke the rules
}

// A message goes as fragments, each behind a header of eight octets, most significant octet first:
//
//	 0                                   4                                   8
//	+-----------------------------------+--+--------------------------------+
//	|       octets of the message       |A |     octets of the fragment     |
//	+-----------------------------------+--+--------------------------------+
//
// A says that the message before is not whole and that the receiver forgets it.
const (
	frameLen    = 8
	flagAbandon = 1 << 31
	maxFragment = 64 << 10
)

// MaxMessage is the most that a message can have, in octets.
const MaxMessage = 1<<31 - 1

// NewMessages carries messages on c. What has been written to c before must have been read at the other end, and from
// then on c is the Messages', but for CloseWrite, which tells the peer that no message follows, and its addresses. max
// bounds the messages that this end receives, in octets; a longer one ends the connection. 0 means 1 MiB.
func NewMessages(c *Conn, max int) (*Messages, error) {
	if max == 0 {
		max = 1 << 20
	}
	if max < 0 || max > MaxMessage {
		return nil, fmt.Errorf("stream: messages of up to %d octets: between 1 and %d", max, MaxMessage)
	}
	return &Messages{c: c, max: uint32(max), sending: make(chan struct{}, 1), taking: make(chan struct{}, 1)}, nil
}

// Send sends p as one message and waits until the network has taken it. If ctx ends while it waits for the receiver,
// the receiver gets nothing of the message, and the connection goes on.
func (m *Messages) Send(ctx context.Context, p []byte) error {
	if len(p) > MaxMessage {
		return fmt.Errorf("stream: a message of %d octets: at most %d", len(p), MaxMessage)
	}
	if err := enter(ctx, m.sending); err != nil {
		return err
	}
	defer func() { <-m.sending }()
	m.c.writing.Lock()
	defer m.c.writing.Unlock()
	total, first := uint32(len(p)), true
	for first || len(p) > 0 {
		n, err := m.room(ctx, len(p))
		if err != nil {
			m.abandoned = m.abandoned || !first
			return m.c.opError("write", err)
		}
		var h [frameLen]byte
		size := uint32(n)
		if m.abandoned {
			size |= flagAbandon
		}
		binary.BigEndian.PutUint32(h[:], total)
		binary.BigEndian.PutUint32(h[4:], size)
		if _, err := m.c.write([][]byte{h[:], p[:n]}); err != nil {
			return m.c.opError("write", err)
		}
		m.abandoned, first = false, false
		p = p[n:]
	}
	return nil
}

// room waits until a fragment can be written without waiting for the receiver, and returns how many of n octets it has.
func (m *Messages) room(ctx context.Context, n int) (int, error) {
	c := m.c
	for {
		if err := c.mayWrite(); err != nil {
			return 0, err
		}
		c.mu.Lock()
		octets := c.out.ready()
		c.mu.Unlock()
		some := octets >= uint64(min(frameLen+n, 2*frameLen))
		if some {
			return int(min(uint64(n), octets-frameLen, maxFragment)), nil
		}
		if err := interruptible(ctx, &c.sendUntil,
			func() error { return c.await(c.writable, &c.sendUntil) }); err != nil {
			return 0, err
		}
	}
}

// Recv copies the next message into p, waiting for it if need be, and returns its length. If p is too short the error
// wraps [iwarp.ErrShortBuffer] and the message stays. If ctx ends first, nothing is lost. It returns [io.EOF] after the
// peer's last message.
func (m *Messages) Recv(ctx context.Context, p []byte) (n int, err error) {
	if err := enter(ctx, m.taking); err != nil {
		return 0, err
	}
	defer func() { <-m.taking }()
	m.c.reading.Lock()
	defer m.c.reading.Unlock()
	err = interruptible(ctx, &m.c.readUntil, func() error {
		n, err = m.recv(p)
		return err
	})
	if err != nil && !errors.Is(err, iwarp.ErrShortBuffer) {
		return 0, m.c.opError("read", err)
	}
	return n, err
}

func (m *Messages) recv(p []byte) (int, error) {
	if m.bad != nil {
		return 0, m.bad
	}
	copy(p, m.kept)
	for !m.begun || m.have < m.total || m.left > 0 {
		if m.left == 0 {
			if err := m.header(); err != nil {
				return 0, m.keep(p, err)
			}
		}
		if int64(m.total) > int64(len(p)) {
			return int(m.total), m.keep(p,
				fmt.Errorf("%w: message of %d octets, room for %d", iwarp.ErrShortBuffer, m.total, len(p)))
		}
		if m.left > 0 {
			n, err := m.c.read(p[m.have : m.have+m.left])
			m.have += uint32(n)
			m.left -= uint32(n)
			if err != nil {
				return 0, m.keep(p, m.midway(err))
			}
		}
	}
	n := int(m.total)
	m.begun, m.have, m.kept = false, 0, m.kept[:0]
	return n, nil
}

// header reads a header. The error of one that breaks the rules ends the connection.
func (m *Messages) header() error {
	for m.got < frameLen {
		n, err := m.c.read(m.head[m.got:])
		m.got += n
		if errors.Is(err, io.EOF) && m.got == 0 && !m.begun {
			return err
		}
		if err != nil {
			return m.midway(err)
		}
	}
	m.got = 0
	total, size := binary.BigEndian.Uint32(m.head[:]), binary.BigEndian.Uint32(m.head[4:])
	abandon := size&flagAbandon != 0
	size &^= flagAbandon
	var what string
	switch {
	case abandon && !m.begun:
		what = "a message is abandoned that has not begun"
	case m.begun && !abandon && total != m.total:
		what = fmt.Sprintf("a message of %d octets goes on with %d", m.total, total)
	case total > m.max:
		what = fmt.Sprintf("a message of %d octets: at most %d", total, m.max)
	case size == 0 && total > 0:
		what = "a fragment without octets"
	}
	if abandon {
		m.have, m.kept = 0, m.kept[:0]
	}
	if what == "" && uint64(m.have)+uint64(size) > uint64(total) {
		what = fmt.Sprintf("a fragment of %d octets behind %d of a message of %d", size, m.have, total)
	}
	if what != "" {
		m.bad = fmt.Errorf("%w: %s", ErrProtocol, what)
		m.c.mu.Lock()
		m.c.fail(m.bad)
		m.c.mu.Unlock()
		return m.bad
	}
	m.total, m.left, m.begun = total, size, true
	return nil
}

// midway is the error of an end within a message.
func (m *Messages) midway(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// keep saves what has been read for the next call.
func (m *Messages) keep(p []byte, err error) error {
	if m.have > uint32(len(m.kept)) {
		m.kept = append(m.kept[:0], p[:m.have]...)
	}
	return err
}

// enter takes a turn.
func enter(ctx context.Context, turn chan struct{}) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// interruptible calls f, whose wait for the deadline the end of ctx ends too.
func interruptible(ctx context.Context, d *deadline, f func() error) error {
	if ctx.Done() == nil {
		return f()
	}
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		d.set(time.Unix(1, 0))
		close(ran)
	})
	err := f()
	if !stop() {
		<-ran
		d.set(time.Time{})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = context.Cause(ctx)
		}
	}
	return err
}

// Close closes the stream.
func (m *Messages) Close() error { return m.c.Close() }
