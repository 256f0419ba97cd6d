package sctp

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/go-iwarp/iwarp/mpa"
)

// Gateway hands connections that come over MPA and TCP on over SCTP: segments as they are, startup frames
// as control messages, and the ends. So whatever speaks MPA alone, such as iwarp conform, reaches a peer
// over SCTP, and what is wrong in a segment arrives as it was. It is a tool for tests: it asks no peer
// who it is.
type Gateway struct {
	// Network and Address of the peer, as those of [Dial].
	Network, Address string
	// SCTP configures the associations, one for each connection; nil means the defaults.
	SCTP *Config
}

// Serve carries the connections of l until that fails, and returns its error. It closes neither l nor
// what it has accepted when ctx ends: that ends startup alone.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		go g.serve(ctx, nc)
	}
}

// serve carries one TCP connection to its end.
func (g *Gateway) serve(ctx context.Context, nc net.Conn) {
	defer nc.Close()
	in, err := mpa.ReadRequest(ctx, nc, nil)
	if err != nil {
		return
	}
	c, err := g.SCTP.withDefaults()
	if err != nil {
		return
	}
	a, err := associateOnce(ctx, &net.Dialer{}, g.Network, g.Address, c)
	if err != nil {
		return
	}
	s, err := a.open(ctx)
	if err != nil {
		a.Abort()
		return
	}
	defer s.Close()
	m, err := g.start(ctx, in.Request(), nc, s)
	if err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := backwards(s, m)
		_ = m.CloseWrite()
		if !errors.Is(err, io.EOF) {
			_ = m.Close()
		}
	}()
	for err == nil {
		err = m.Receive(func(_ uint64, segment []byte) error { return s.Queue(segment, nil, false) })
	}
	if errors.Is(err, io.EOF) {
		_ = s.CloseWrite()
	} else {
		_ = s.Abort()
	}
	<-done
}

// start hands the Request and its answer on.
func (g *Gateway) start(ctx context.Context, req *mpa.Startup, nc net.Conn, s *session) (*mpa.Conn, error) {
	f := Initiate
	if req.Enhanced {
		f = EnhancedInitiate
	}
	if err := s.control(f, req.PrivateData); err != nil {
		return nil, err
	}
	reply, err := s.answer(ctx)
	if err != nil {
		return nil, err
	}
	frame, err := reply.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	if _, err := nc.Write(frame); err != nil || reply.Reject {
		return nil, errors.Join(err, io.EOF)
	}
	return mpa.NewConn(nc, mpa.Params{Revision: reply.Revision, CRC: true, SendMarkers: req.Markers}, nil), nil
}

// backwards hands what comes over SCTP on, in the order of sending, until it ends.
func backwards(s *session, m *mpa.Conn) (err error) {
	early := make(map[uint64][]byte)
	var next uint64
	for err == nil {
		err = s.Receive(func(order uint64, segment []byte) error {
			early[order] = slices.Clone(segment)
			for b, ok := early[next]; ok; b, ok = early[next] {
				delete(early, next)
				next++
				if err := m.Queue(b, nil, false); err != nil {
					return err
				}
			}
			_, err := m.Flush(true)
			return err
		})
	}
	return err
}
