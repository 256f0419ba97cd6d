package iwarptest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// relaySide is one direction of a connection through a relay: a goroutine reads, judges what goes wrong and puts steps
// into a queue, and another takes each at its time.
type relaySide struct {
	relay  *Relay
	path   *RelayPath
	stream *relayStream

	mu     sync.Mutex
	steps  []relayStep
	octets int       // on their way: in steps, or being written
	free   time.Time // when the line is free again
	cut    bool      // by a fault: what comes is thrown away
	more   chan struct{}
	room   chan struct{}
}

const maxRelayRead = 64 << 10 // octets

func newRelaySide(r *Relay, back bool) *relaySide {
	s := &relaySide{relay: r, path: &r.cfg.Forward, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	if back {
		s.path = &r.cfg.Back
	}
	s.stream = newRelayStream(r.cfg.Faults, back)
	s.stream.onFault = r.cfg.OnFault
	return s
}

// readSize is how much is read at a time: a millisecond's worth, so that a slow line does not deliver in bursts.
func (s *relaySide) readSize() int {
	n := min(maxRelayRead, s.path.Window)
	if s.path.Rate > 0 {
		n = min(n, max(int(s.path.Rate/1000), 1))
	}
	return n
}

// read takes what an end sends until its FIN.
func (s *relaySide) read(ctx context.Context, from net.Conn) error {
	buf := make([]byte, s.readSize())
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := s.push(ctx, s.stream.feed(append([]byte(nil), buf[:n]...)), n); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return s.push(ctx, append(s.stream.end(), relayStep{kind: stepFIN}), 0)
		case err != nil:
			return err
		}
	}
}

// push puts steps that n octets on the line have made into the queue, and waits while the window is full.
func (s *relaySide) push(ctx context.Context, steps []relayStep, n int) error {
	s.mu.Lock()
	now := time.Now()
	if s.free.Before(now) {
		s.free = now
	}
	if s.path.Rate > 0 {
		s.free = s.free.Add(time.Duration(float64(n) / float64(s.path.Rate) * float64(time.Second)))
	}
	for _, step := range steps {
		step.due = s.free.Add(s.path.Delay)
		if !s.cut {
			s.steps = append(s.steps, step)
			s.octets += len(step.b)
		}
		s.cut = s.cut || step.kind == stepCut
	}
	signal(s.more)
	for s.octets >= s.path.Window {
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
	return nil
}

// write takes the steps, each at its time, until the end of the stream.
func (s *relaySide) write(ctx context.Context, to net.Conn) error {
	for {
		step, err := s.pop(ctx)
		if err != nil {
			return err
		}
		if err := sleepUntil(ctx, step.due); err != nil {
			return err
		}
		switch step.kind {
		case stepFIN, stepCut:
			return closeWrite(to)
		case stepReset:
			return ErrFault
		case stepHold:
			if err := s.hold(ctx, step.hold); err != nil {
				return err
			}
		case stepWrite:
			size := len(step.b)
			if step.size > 0 {
				size = step.size
			}
			for b := step.b; len(b) > 0; {
				n, err := to.Write(b[:min(size, len(b))])
				if err != nil {
					return err
				}
				b = b[n:]
			}
			s.delivered(len(step.b))
		}
	}
}

// delivered makes room for as many octets.
func (s *relaySide) delivered(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.octets -= n
	signal(s.room)
}

func (s *relaySide) pop(ctx context.Context) (relayStep, error) {
	s.mu.Lock()
	for len(s.steps) == 0 {
		s.mu.Unlock()
		select {
		case <-s.more:
		case <-ctx.Done():
			return relayStep{}, context.Cause(ctx)
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	step := s.steps[0]
	s.steps[0].b = nil
	s.steps = s.steps[1:]
	return step, nil
}

// hold waits for a time, or for Resume; for 0 only for that.
func (s *relaySide) hold(ctx context.Context, d time.Duration) error {
	resumed := s.relay.resumed()
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-resumed:
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func sleepUntil(ctx context.Context, due time.Time) error {
	left := time.Until(due)
	if left <= 0 {
		return nil
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// signal wakes the one that waits, or the next one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
