package iwarp

import (
	"context"
	"fmt"
	"sync"
)

// connSet is the connections that a listener has accepted and that have not ended.
type connSet struct {
	mu    sync.Mutex
	conns map[*Conn]struct{}
	busy  int           // calls of ConnRequest.Accept under way
	asked bool          // Shutdown has asked all to end
	empty chan struct{} // closed when none is left; made by Shutdown
}

// enter lets a call of Accept begin, unless the listener is shutting down.
func (s *connSet) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.asked {
		s.busy++
	}
	return !s.asked
}

func (s *connSet) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.noteEmpty()
}

func (s *connSet) add(c *Conn) {
	s.mu.Lock()
	if s.conns == nil {
		s.conns = make(map[*Conn]struct{})
	}
	s.conns[c] = struct{}{}
	asked := s.asked
	s.mu.Unlock()
	if asked { // it was being accepted meanwhile
		c.askToEnd()
	}
}

func (s *connSet) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.noteEmpty()
}

func (s *connSet) noteEmpty() {
	if len(s.conns) == 0 && s.busy == 0 && s.asked && !over(s.empty) {
		close(s.empty)
	}
}

// askAll asks all connections to end, and returns a channel that is closed when they have.
func (s *connSet) askAll() <-chan struct{} {
	s.mu.Lock()
	if !s.asked {
		s.asked, s.empty = true, make(chan struct{})
	}
	s.noteEmpty()
	s.mu.Unlock()
	for _, c := range s.all() {
		c.askToEnd()
	}
	return s.empty
}

func (s *connSet) all() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// Shutdown ends a service gracefully. It stops listening, drops startups that have shown no
// Request, and rejects the Requests that wait (their peers get a *[RejectError]). It asks
// each connection that this listener has accepted to end, waits until the program has closed
// them all and they have ended, and returns nil. When ctx ends first, it aborts those that
// are left, and returns an error that has ctx's cause inside and says how many these were.
//
// On a connection without a QP of the program's, Recv still returns the messages that have
// come before, and then [ErrShutdown]; what comes later is dropped. So the usual loop answers
// every request that it has received, and then calls Close, which tells the peer by a FIN: a
// request that has no answer when the peer's Recv returns [io.EOF] has not been looked at.
// A program with QPs of its own looks at [Conn.ShuttingDown].
//
// A Read or an atomic of a peer that meets the FIN fails at that peer: where peers use one-
// sided operations, tell them by a message that they should close, and close after them.
//
// It is idempotent, and may be called while AcceptRequest or Accept waits, which
// then return ErrShutdown.
func (l *Listener) Shutdown(ctx context.Context) error {
	if err := l.made(); err != nil {
		return err
	}
	empty := l.conns.askAll()
	l.reject.Store(&ctx)
	err := l.end(ErrShutdown)
	select {
	case <-empty:
		return err
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	var left int
	for _, c := range l.conns.all() {
		left++
		c.abort(fmt.Sprintf("aborted by this end: the context of Listener.Shutdown ended (%v)", cause), cause)
	}
	<-empty
	if left == 0 {
		return err
	}
	return fmt.Errorf("iwarp: shutdown: %d connections were aborted: %w", left, cause)
}
