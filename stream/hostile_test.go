package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
)

// scripted is a peer that says what the test wants: an iWARP connection to a stream.
type scripted struct {
	*iwarp.Conn
	list, ring *iwarp.MR
	peer       privateData
}

// script connects a scripted peer to a stream.
func script(t *testing.T, cfg *Config) (*scripted, *Conn) {
	t.Helper()
	ln, err := Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := dev.NewPD()
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{}
	for mr, n := range map[**iwarp.MR]int{&s.list: grantEntries * sgeLen, &s.ring: 8192} {
		if *mr, err = pd.NewMR(make([]byte, n), iwarp.RemoteWrite, nil); err != nil {
			t.Fatal(err)
		}
	}
	d := privateData{
		credits: 32, grants: sge{addr: 0, stag: uint32(s.list.STag()), length: grantEntries},
		first: sge{addr: 0, stag: uint32(s.ring.STag()), length: 4096},
	}
	accepted := make(chan *Conn)
	go func() {
		c, err := ln.AcceptStream(t.Context())
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	if s.Conn, err = iwarp.Dial(t.Context(), "tcp", ln.Addr().String(),
		&iwarp.Config{PD: pd, PrivateData: d.AppendTo(nil)}); err != nil {
		t.Fatal(err)
	}
	if s.peer, err = parsePrivateData(s.ConnectionState().PrivateData); err != nil {
		t.Fatal(err)
	}
	c := <-accepted
	t.Cleanup(func() {
		s.Abort()
		_ = c.Close()
		<-c.ended
	})
	return s, c
}

func (s *scripted) say(t *testing.T, kind, value uint32) {
	t.Helper()
	if err := s.Send(t.Context(), binary.LittleEndian.AppendUint32(nil, message(kind, value))); err != nil {
		t.Fatal(err)
	}
}

// write writes to memory of the stream.
func (s *scripted) write(t *testing.T, p []byte, to iwarp.RemoteBuffer) {
	t.Helper()
	if err := s.RDMAWrite(t.Context(), p, to); err != nil {
		t.Fatal(err)
	}
}

// A peer that breaks a rule loses its connection, and the program hears which rule.
func TestHostileMessages(t *testing.T) {
	cfg := &Config{RecvBuffer: 16 << 10, Credits: minCredits}
	for name, say := range map[string]func(*scripted){
		"three octets":                func(s *scripted) { _ = s.Send(t.Context(), []byte{1, 2, 3}) },
		"immediate data":              func(s *scripted) { _ = s.SendImmediate(t.Context(), 1) },
		"kind 1":                      func(s *scripted) { s.say(t, 1, 1) },
		"kind 2":                      func(s *scripted) { s.say(t, 2, 1) },
		"kind 3":                      func(s *scripted) { s.say(t, 3, 1) },
		"kind 5":                      func(s *scripted) { s.say(t, 5, 1) },
		"a table that is not offered": func(s *scripted) { s.say(t, kindMemory, 0) },
		"state 3":                     func(s *scripted) { s.say(t, kindState, 3) },
		"more than both halves":       func(s *scripted) { s.say(t, kindData, 16<<10+1) },
		"all the value has":           func(s *scripted) { s.say(t, kindData, maxValue) },
		"data after shutdown": func(s *scripted) {
			s.say(t, kindState, stateShutdown)
			s.say(t, kindData, 1)
		},
		"a limit of 0":                   func(s *scripted) { s.say(t, kindGrant, 0) },
		"a limit that goes back":         func(s *scripted) { s.say(t, kindGrant, 31) },
		"a limit beyond the credits":     func(s *scripted) { s.say(t, kindGrant, 33) },
		"a limit of 18 bits":             func(s *scripted) { s.say(t, kindGrant, 1<<17|32) },
		"memory that is not in the list": func(s *scripted) { s.say(t, kindGrant, 32|grantMarked|grantMemory) },
		"memory without the other mark":  func(s *scripted) { s.say(t, kindGrant, 32|grantMemory) },
		"memory that wraps": func(s *scripted) {
			s.grant(t, sge{addr: 1<<64 - 1, stag: 1, length: 2},
				0)
		},
		"memory that wraps, and is noted": func(s *scripted) {
			s.grant(t, sge{addr: 1<<64 - 1, stag: 1, length: 2},
				grantMarked|grantMemory)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := script(t, cfg)
			go say(s)
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			var err error
			for err == nil {
				_, err = c.Read(make([]byte, 100))
			}
			if name == "data after shutdown" && err == io.EOF {
				_, err = c.WriteTo(io.Discard) // may see the shutdown alone first
				for err == nil {
					_, err = c.Write(make([]byte, 4096))
				}
			}
			if !errors.Is(err, ErrProtocol) {
				t.Error(err)
			}
			if _, err := c.Write(make([]byte, 1)); !errors.Is(err, ErrProtocol) {
				t.Errorf("Write: %v", err)
			}
		})
	}
}

// Credits are renewed when messages are handled, so that no peer can be sure to overrun them: by hand, therefore.
func TestBeyondCredits(t *testing.T) {
	in := inbound{promised: 10, limit: 2, seq: 65535}
	for range 3 {
		if err := in.data(0); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.data(0); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
}

// grant writes a grant to the list's next entry and says so.
func (s *scripted) grant(t *testing.T, g sge, marks uint32) {
	s.write(t, g.appendGrant(nil), remote(&s.peer.grants, sgeLen))
	s.say(t, kindGrant, 32|marks)
}

// A peer may reach its ring and its list, for writing, and nothing else.
func TestHostileAccess(t *testing.T) {
	for name, do := range map[string]func(*scripted) error{
		"beyond the ring": func(s *scripted) error {
			return s.RDMAWrite(t.Context(), make([]byte, 2), remote(&s.peer.first, 16<<10-1))
		},
		"reading": func(s *scripted) error {
			return s.RDMARead(t.Context(), make([]byte, 1),
				remote(&s.peer.first, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := script(t, &Config{RecvBuffer: 16 << 10})
			go func() { _ = do(s) }()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			var perr *iwarp.ProtocolError
			if _, err := c.Read(make([]byte, 1)); !errors.As(err, &perr) {
				t.Error(err)
			}
		})
	}
}

// What a stream does not understand at startup it refuses.
func TestHostileStartup(t *testing.T) {
	ln, err := Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := ln.AcceptStream(ctx)
		over <- err
	}()
	for name, b := range badPrivateData(t) {
		var rejected *iwarp.RejectError
		if _, err := iwarp.Dial(ctx, "tcp", ln.Addr().String(), &iwarp.Config{PrivateData: b}); !errors.As(err,
			&rejected) {
			t.Errorf("%s, to a listener: %v", name, err)
		}
		raw, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{PrivateData: b})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if c, err := raw.Accept(ctx); err == nil {
				c.Abort()
			}
		}()
		var declined *iwarp.DeclinedError
		if _, err := Dial(ctx, "tcp", raw.Addr().String(), nil); !errors.As(err, &declined) {
			t.Errorf("%s, to a dialer: %v", name, err)
		}
		_ = raw.Close()
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The end of the iWARP connection without a word is no end of the stream.
func TestSilentEnd(t *testing.T) {
	s, c := script(t, nil)
	s.say(t, kindState, stateKeepalive)
	s.CloseWrite()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// rsockets do not mark their grants, and may write one before its message: it is found with any grant message.
func TestUnmarkedGrants(t *testing.T) {
	s, c := script(t, nil)
	s.grant(t, sge{addr: 4096, stag: uint32(s.ring.STag()), length: 4096}, 0)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if n, err := c.Write(make([]byte, 8192)); n != 8192 || err != nil {
		t.Fatal(n, err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
	if n, err := c.Write(make([]byte, 1)); n != 0 || err == nil {
		t.Fatal(n, err)
	}
}
