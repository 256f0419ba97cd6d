package kit_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// writes notes what the kit writes on each connection.
type writes struct {
	mu    sync.Mutex
	conns []*writesConn
}

type writesConn struct {
	net.Conn
	w   *writes
	log [][]byte
}

func (w *writes) wrap(nc net.Conn) net.Conn {
	c := &writesConn{Conn: nc, w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	return c
}

func (c *writesConn) Write(b []byte) (int, error) {
	c.w.mu.Lock()
	c.log = append(c.log, bytes.Clone(b))
	c.w.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *writesConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// A gentle initiator makes no mistake before the peer has shown that it has taken the
// first FPDU: first come the Request, an empty Write, and a Read of no octets.
func TestGentleAsksFirst(t *testing.T) {
	addr := serveTarget(t, config(nil))
	var w writes
	connect := func(ctx context.Context) (net.Conn, error) {
		nc, err := kit.Dial("tcp", addr)(ctx)
		if err != nil {
			return nil, err
		}
		return w.wrap(nc), nil
	}
	r, err := kit.Run(t.Context(), connect,
		&kit.Options{Gentle: true, Run: "^(crc/(write|send)|queue/msn)", Timeout: patience, Patience: patience})
	if err != nil || r.Count(kit.Pass) < 10 || r.Count(kit.Fail) > 0 {
		t.Fatalf("%v, %v", r, err)
	}
	first := iwarptest.FPDU(iwarptest.Write(0, 0, nil))
	for i, c := range w.conns {
		if len(c.log) < 3 {
			t.Errorf("connection %d: %d writes", i, len(c.log))
			continue
		}
		var f iwarptest.Framer
		ask, _, err := f.Unframe(c.log[2])
		if !bytes.HasPrefix(c.log[0], []byte("MPA ID Req Frame")) || !bytes.Equal(c.log[1], first) || err != nil ||
			len(ask) != 46 ||
			ask[1] != 0x41 || !bytes.Equal(ask[30:34], make([]byte, 4)) {
			t.Errorf("connection %d begins with %x", i, c.log[:3])
		}
	}
	if _, err := kit.Run(t.Context(), connect, &kit.Options{Run: "^zzz"}); err == nil {
		t.Error("a run of no case passes")
	}
}
