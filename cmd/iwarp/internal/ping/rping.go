package ping

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/go-iwarp/iwarp"
)

// The protocol of rping, an example program of librdmacm. Each iteration:
//
//	client                                server
//	Send: here is my source, N octets -->
//	                                  <-- RDMA Read of the source
//	                                  <-- Send: go ahead
//	Send: here is my sink, N octets   -->
//	                                  <-- RDMA Write of what was read
//	                                  <-- Send: go ahead
//
// Every Send is an advert of 16 octets in network byte order; the server's are to
// be ignored.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                         Tagged Offset                         |
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                             STag                              |
//	+---------------------------------------------------------------+
//	|                        Length in octets                       |
//	+---------------------------------------------------------------+
const advertLen = 16

// recvSize is the size of receive buffers: larger than an advert, so that a wrong
// length can be told, and small. rping has two buffers.
const recvSize, recvDepth = 256, 4

// advert tells the peer of a buffer.
type advert struct {
	at   iwarp.RemoteBuffer
	size uint32
}

func (a advert) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, a.at.TO)
	b = binary.BigEndian.AppendUint32(b, uint32(a.at.STag))
	return binary.BigEndian.AppendUint32(b, a.size)
}

func parseAdvert(b []byte) advert {
	return advert{
		at:   iwarp.RemoteBuffer{TO: binary.BigEndian.Uint64(b), STag: iwarp.STag(binary.BigEndian.Uint32(b[8:]))},
		size: binary.BigEndian.Uint32(b[12:]),
	}
}

// pattern fills buf as rping does for the iteration n (from 0): a text with the
// number, then the octets 'A' to 'z' over and over, from a start that moves by one
// each iteration, and a zero at the end. Only the last octet is 0, which matters
// to rping's server: it treats the data as a string.
func pattern(buf []byte, n uint64) {
	const first, period = byte('A'), int('z') - 'A' + 1
	text := append(strconv.AppendUint([]byte("rdma-ping-"), n, 10), ": "...)
	body := buf[copy(buf, text):]
	for i := range min(period, len(body)) {
		body[i] = first + byte((n+uint64(i))%uint64(period))
	}
	repeat(body, period)
	buf[len(buf)-1] = 0
}

// repeat fills b with its first n octets, over and over.
func repeat(b []byte, n int) {
	for ; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// steps are the moves of either side on a connection; each waits for the peer at
// most timeout.
type steps struct {
	conn    *iwarp.Conn
	timeout time.Duration
	scratch [recvSize]byte
}

// within bounds a step, which what names for the error.
func (s *steps) within(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout, lateError(fmt.Sprintf("no %s within %v", what, s.timeout)))
}

// lateError says what did not come in time.
type lateError string

func (e lateError) Error() string        { return string(e) }
func (e lateError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// closedError is the peer's graceful end where a message was due. It is an io.EOF.
type closedError struct{ due string }

func (e closedError) Error() string { return "the peer closed the connection before its " + e.due }
func (e closedError) Unwrap() error { return io.EOF }

// recv waits for a message of the protocol, which what names.
func (s *steps) recv(ctx context.Context, what string) (advert, error) {
	ctx, cancel := s.within(ctx, what)
	defer cancel()
	m, err := s.conn.Recv(ctx, s.scratch[:])
	switch {
	case errors.Is(err, io.EOF):
		return advert{}, closedError{what}
	case err != nil && ctx.Err() != nil:
		return advert{}, err
	case err != nil:
		return advert{}, fmt.Errorf("waiting for the %s: %w", what, err)
	case m.Op != iwarp.OpRecv:
		return advert{}, fmt.Errorf("the %s came as Immediate Data: a Send of %d octets is due", what, advertLen)
	case m.Length != advertLen:
		return advert{}, fmt.Errorf("the %s has %d octets: %d are due", what, m.Length, advertLen)
	}
	return parseAdvert(s.scratch[:]), nil
}

// send sends an advert, which what names. It does not wait: what becomes of it
// shows in the peer's answer.
func (s *steps) send(what string, a advert) error {
	var b [advertLen]byte
	wr := iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{a.appendTo(b[:0])}, Inline: true, Unsignaled: true}
	if err := s.conn.QP().PostSend(wr); err != nil {
		return fmt.Errorf("sending the %s: %w", what, err)
	}
	return nil
}
