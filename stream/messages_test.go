package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
)

func messagesPair(t *testing.T, cfg *Config, limit int) (a, b *Messages) {
	t.Helper()
	x, y := pair(t, cfg)
	a, err := NewMessages(x, limit)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = NewMessages(y, limit); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// Messages of every kind of length arrive whole and in order, also through a small ring and with many senders.
func TestMessages(t *testing.T) {
	a, b := messagesPair(t, &Config{RecvBuffer: 8192, Credits: minCredits}, 1<<20)
	lengths := []int{0, 1, 7, 8, 4095, 4096, 8192, 100000, 1 << 20, 0, 3}
	const senders = 4
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for _, n := range lengths {
				if err := a.Send(t.Context(), bytes.Repeat([]byte{byte(i + 1)}, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var next [senders]int
	p := make([]byte, 1<<20)
	empty := 0
	for range senders * len(lengths) {
		n, err := b.Recv(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			empty++
			continue
		}
		s := int(p[0]) - 1
		for lengths[next[s]] == 0 {
			next[s]++
		}
		if n != lengths[next[s]] || len(bytes.Trim(p[:n], string(p[:1]))) != 0 {
			t.Fatalf("message of %d octets, want %d of one sender", n, lengths[next[s]])
		}
		next[s]++
	}
	wg.Wait()
	if empty != 2*senders {
		t.Errorf("%d empty messages", empty)
	}
	if err := a.c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recv(t.Context(), p); err != io.EOF {
		t.Error(err)
	}
}

// A sender that gives up leaves nothing of its message, and a receiver that does loses nothing.
func TestMessagesGiveUp(t *testing.T) {
	a, b := messagesPair(t, &Config{RecvBuffer: 8192}, 1<<20)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if err := a.Send(short(), make([]byte, 100000)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	p := make([]byte, 1<<20)
	if _, err := b.Recv(short(), p); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("octets "), 5000)
	go func() { _ = a.Send(t.Context(), want) }()
	if n, err := b.Recv(t.Context(), p[:10]); n != len(want) || !errors.Is(err, iwarp.ErrShortBuffer) {
		t.Fatal(n, err)
	}
	if n, err := b.Recv(t.Context(), p); err != nil || !bytes.Equal(p[:n], want) {
		t.Fatal(n, err)
	}
}

// A peer that breaks the rules of messages loses the connection.
func TestMessagesHostile(t *testing.T) {
	frame := func(total, size uint32, n int) []byte {
		b := binary.BigEndian.AppendUint32(nil, total)
		return append(binary.BigEndian.AppendUint32(b, size), make([]byte, n)...)
	}
	for name, b := range map[string][]byte{
		"too long":             frame(1001, 1, 1),
		"all ones":             frame(1<<32-1, 1<<32-1, 0),
		"fragment too long":    frame(10, 11, 11),
		"empty fragment":       frame(10, 0, 0),
		"another length":       append(frame(10, 1, 1), frame(11, 1, 1)...),
		"fragments too long":   append(frame(10, 9, 9), frame(10, 2, 2)...),
		"abandoned from start": frame(10, 10|flagAbandon, 10),
	} {
		t.Run(name, func(t *testing.T) {
			x, y := pair(t, nil)
			m, err := NewMessages(y, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := x.Write(b); err != nil {
				t.Fatal(err)
			}
			if n, err := m.Recv(t.Context(), make([]byte, 1000)); !errors.Is(err, ErrProtocol) {
				t.Error(n, err)
			}
			if _, err := m.Recv(t.Context(), make([]byte, 1000)); !errors.Is(err, ErrProtocol) {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// TestGolden compares what goes over the wire with testdata/golden.txt: a later version of this package, or another
// program, is held against it. STags, which nobody can foresee, are zeros there.
func TestGolden(t *testing.T) {
	s, c := script(t, &Config{RecvBuffer: 512 << 10})
	var log strings.Builder
	stag := binary.BigEndian.AppendUint32(nil, s.peer.first.stag)
	note := func(what string, b []byte) {
		b = bytes.ReplaceAll(bytes.Clone(b), stag, make([]byte, 4))
		b = bytes.ReplaceAll(b, []byte{stag[3], stag[2], stag[1], stag[0]}, make([]byte, 4))
		fmt.Fprintf(&log, "%-12s %s\n", what, hex.EncodeToString(b))
	}
	p := make([]byte, 100)
	hear := func() {
		msg, err := s.Recv(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		note("message", p[:msg.Length])
	}
	note("private data", s.ConnectionState().PrivateData)
	hear()
	note("list entry 1", s.list.Bytes()[sgeLen:][:sgeLen])
	if _, err := c.Write([]byte("octets")); err != nil {
		t.Fatal(err)
	}
	hear()
	note("memory", s.ring.Bytes()[:6])
	m, err := NewMessages(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a message", ""} {
		if err := m.Send(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		hear()
	}
	note("memory", s.ring.Bytes()[6:6+8+9+8])
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	hear()
	go func() { _ = c.Close() }()
	hear()
	want, err := os.ReadFile("testdata/golden.txt")
	if err != nil || log.String() != string(want) {
		t.Errorf("%v; got:\n%swant:\n%s", err, log.String(), want)
	}
}
