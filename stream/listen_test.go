package stream

import (
	"context"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A ListenConfig bounds startups as the root's does, and makes the TCP listener as the program wants it.
func TestListenConfig(t *testing.T) {
	controlled := false
	lc := &ListenConfig{
		NetListenConfig: &net.ListenConfig{
			Control: func(string, string, syscall.RawConn) error { controlled = true; return nil },
		},
		MaxPending: 1,
	}
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if !controlled {
		t.Error("NetListenConfig is not asked")
	}
	first, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := net.Dial("tcp", ln.Addr().String()) // takes the place of the silent one
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if n, err := io.Copy(io.Discard, first); n != 0 {
		t.Errorf("%d octets, %v", n, err)
	}
	// It is counted when its startup has ended, which is a moment after the close.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for ln.Stats().Dropped != 1 {
		if ctx.Err() != nil {
			t.Fatalf("%+v", ln.Stats())
		}
		runtime.Gosched()
	}
	for name, bad := range map[string]*ListenConfig{
		"MaxPending":        {MaxPending: -1},
		"MaxPendingPerPeer": {MaxPending: 1, MaxPendingPerPeer: 2},
		"Config":            {Config: &Config{Credits: 1}},
	} {
		if _, err := bad.Listen(context.Background(), "tcp", "127.0.0.1:0"); err == nil {
			t.Errorf("a bad %s is accepted", name)
		}
	}
	var none *ListenConfig
	if ln, err := none.Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Error(err)
	} else {
		_ = ln.Close()
	}
}
