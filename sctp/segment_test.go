package sctp_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/sctp"
)

// datagrams is one end of a network in memory: a net.PacketConn, for any number of packets.
type datagrams struct {
	in, out chan []byte
	closed  chan struct{}
}

type memoryAddr string

func (a memoryAddr) Network() string { return "memory" }
func (a memoryAddr) String() string  { return string(a) }

func memoryNetwork() (a, b *datagrams) {
	x, y := make(chan []byte, 1000), make(chan []byte, 1000)
	return &datagrams{x, y, make(chan struct{})}, &datagrams{y, x, make(chan struct{})}
}

func (d *datagrams) ReadFrom(p []byte) (int, net.Addr, error) {
	select {
	case b := <-d.in:
		return copy(p, b), memoryAddr("peer"), nil
	case <-d.closed:
		return 0, nil, net.ErrClosed
	}
}

func (d *datagrams) WriteTo(p []byte, _ net.Addr) (int, error) {
	select {
	case d.out <- bytes.Clone(p):
	default: // lost
	}
	return len(p), nil
}

func (d *datagrams) Close() error                     { close(d.closed); return nil }
func (d *datagrams) LocalAddr() net.Addr              { return memoryAddr("self") }
func (d *datagrams) SetDeadline(time.Time) error      { return nil }
func (d *datagrams) SetReadDeadline(time.Time) error  { return nil }
func (d *datagrams) SetWriteDeadline(time.Time) error { return nil }

// A message goes at once, and waits for nothing that could go with it: no time passes until it is
// there. An association has one address of each end, over any packet conn.
// Shows: SCTP-11.2-01, SCTP-7.2-01, SCTP-7.2-03
func TestNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		client, server := memoryNetwork()
		l, err := sctp.NewListener(server, nil, nil)
		check(t, "NewListener", err)
		assoc, err := sctp.AssociateOver(ctx, connected{client, memoryAddr("server")}, nil)
		check(t, "AssociateOver", err)
		if assoc.LocalAddr().String() != "self" || assoc.RemoteAddr().String() != "server" {
			t.Errorf("%v, %v", assoc.LocalAddr(), assoc.RemoteAddr())
		}
		ch := accept(ctx, l)
		a, err := assoc.Dial(ctx, nil)
		check(t, "Dial", err)
		b := <-ch
		check(t, "Accept", b.err)
		for range 10 {
			began := time.Now()
			check(t, "Send", a.Send(ctx, []byte("short")))
			_, err := b.c.Recv(ctx, make([]byte, 10))
			check(t, "Recv", err)
			if passed := time.Since(began); passed > 0 {
				t.Errorf("a message took %v where nothing takes time", passed)
			}
			time.Sleep(time.Second) // of virtual time: all is acknowledged
		}
		closeBoth(t, a, b.c)
		check(t, "Close", assoc.Close())
		check(t, "Close", l.Close())
	})
}

// What iWARP promises about memory holds here too: a Write without the right ends the connection with
// the peer's Terminate, and changes nothing.
// Shows: SCTP-11.3-03, SCTP-6.2-01
func TestTerminate(t *testing.T) {
	ctx := testContext(t)
	a, b := connect(t, nil, nil)
	memory := make([]byte, 100)
	mr, err := b.NewMR(memory, iwarp.RemoteRead)
	check(t, "NewMR", err)
	defer mr.Close()
	_ = a.RDMAWrite(ctx, pattern(100), mr.Remote())
	if _, err := a.Recv(ctx, nil); err == nil || !strings.Contains(err.Error(), "peer reports") {
		t.Errorf("Recv: %v", err)
	}
	if !bytes.Equal(memory, make([]byte, 100)) {
		t.Error("memory has changed")
	}
	<-b.Done()
	<-a.Done()
}
