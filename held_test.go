package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// Messages that nobody has taken hold what has come of them and no more: nothing for
// those of up to 64 octets, twice their octets for whole ones, four times for begun
// ones, or the smallest chunk.
// Shows: SEC-6.4.1-01
func TestHeldIsWhatCame(t *testing.T) {
	for _, size := range []int{0, 1, 64, 65, 200, 256, 257, 1000, 1460, 4096, 5000, 40000, 60000} {
		for _, pieces := range []int{1, 2, 3, 10, 40} {
			if pieces > 1 && size < pieces {
				continue
			}
			for _, whole := range []bool{true, false} {
				most := max(2*size, 256)
				if !whole {
					most = max(4*size, 256)
				}
				if size <= 64 {
					most = 0
				}
				if pieces > 1 {
					most = max(4*size, 256) // a begun one when the last piece came
				}
				t.Run(fmt.Sprintf("%d in %d pieces, whole %v", size, pieces, whole), func(t *testing.T) {
					heldOf(t, size, pieces, whole, most)
				})
			}
		}
	}
}

func heldOf(t *testing.T, size, pieces int, whole bool, most int) {
	v, p := serverOfPeer(t, nil)
	text := pattern(size)
	const messages = 4
	last := uint32(messages)
	for msn := uint32(1); msn <= messages; msn++ {
		for i := range pieces {
			at, end := i*size/pieces, (i+1)*size/pieces
			ends := i == pieces-1 && (whole || msn < last)
			p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: ends, MSN: msn, MO: uint32(at)},
				text[at:end]))
		}
	}
	p.Send(iwarptest.Write(0, 0, nil)) // when it has come, so has all before
	if whole {
		waitReceived(t, v, messages+1)
	} else {
		waitReceived(t, v, messages)
	}
	n, octets := v.Held()
	if n != messages || octets > messages*most {
		t.Errorf("%d messages hold %d octets, want %d and at most %d", n, octets, messages, messages*most)
	}
	for range messages - 1 {
		wantRecv(t, v, string(text))
	}
	if whole {
		wantRecv(t, v, string(text))
	} else {
		p.Send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: last, MO: uint32(size)}, nil))
		wantRecv(t, v, string(text))
	}
	if n, octets := v.Held(); n != 0 || octets != 0 {
		t.Errorf("%d messages hold %d octets after all were taken", n, octets)
	}
}

// waitReceived returns when so many messages have arrived.
func waitReceived(t *testing.T, c *iwarp.Conn, n uint64) {
	t.Helper()
	for ctx := testContext(t); c.Stats().RDMAP.MessagesReceived < n; runtime.Gosched() {
		check(t, "waiting for messages", ctx.Err())
	}
}

// docs/security.md says what a message costs that has next to nothing in it.
func TestLetterSize(t *testing.T) {
	if n := iwarp.LetterSize; n > 144 {
		t.Errorf("a message that waits for Recv takes %d octets, want at most 144", n)
	}
}

// What Recv does not take is bounded for a device. The connection that needs more
// ends, with the reason; those that hold little go on, and so does one whose program
// fetches its messages.
// Shows: SEC-6.4.1-01
func TestMaxHeld(t *testing.T) {
	const bound = 512 << 10
	d := newDevice(t, &iwarp.DeviceConfig{MaxHeld: bound})
	sc := &iwarp.Config{Device: d, RecvDepth: 1000}
	ctx := testContext(t)
	modest, modestEnd := tcpPair(t, nil, sc)
	busy, busyEnd := tcpPair(t, nil, sc)
	greedy, greedyEnd := tcpPair(t, nil, sc)
	text := pattern(20000)
	check(t, "Send", modest.Send(ctx, text))
	for sent := 0; greedy.Send(ctx, text) == nil; sent++ {
		if sent*len(text) > 64<<20 {
			t.Fatalf("%d octets were taken", sent*len(text))
		}
	}
	wantDone(t, greedyEnd)
	perr := wantCode(t, greedyEnd.Err(), protocol.DDPUntaggedNoBuffer, false)
	if !errors.Is(perr, iwarp.ErrLimit) {
		t.Errorf("the error is %v: it does not say that a limit was reached", perr)
	}
	if u := d.Use(); u.Held > bound || u.Held < bound-128<<10 || u.HeldRefused == 0 {
		t.Errorf("%d octets held, %d refusals", u.Held, u.HeldRefused)
	}
	for range 20 {
		check(t, "Send", busy.Send(ctx, text))
		wantRecv(t, busyEnd, string(text))
	}
	check(t, "Send", modest.Send(ctx, text))
	wantRecv(t, modestEnd, string(text))
	wantRecv(t, modestEnd, string(text))
	// What has come can be had, and counts no more then.
	for n := 0; ; n++ {
		b := make([]byte, len(text))
		m, err := greedyEnd.Recv(ctx, b)
		if err != nil {
			break
		}
		if !bytes.Equal(b[:m.Length], text) {
			t.Fatalf("message %d is not what was sent", n)
		}
	}
	if u := d.Use(); u.Held != 0 {
		t.Errorf("%d octets held when all is taken", u.Held)
	}
}

// A connection that its program has closed, or lost, holds nothing of the bound.
func TestHeldIsGivenBack(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(client, server *iwarp.Conn)
	}{
		{name: "Close", end: func(client, server *iwarp.Conn) { closeBoth(t, client, server) }},
		{name: "Abort", end: func(_, server *iwarp.Conn) { server.Abort() }},
		{name: "QP.Close", end: func(_, server *iwarp.Conn) { check(t, "Close", server.QP().Close()) }},
		{name: "forgotten", end: func(client, server *iwarp.Conn) { client.Abort(); wantDone(t, server) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, nil)
			func() {
				ctx := testContext(t)
				a, b := netPair(t, "tcp")
				ch := make(chan *iwarp.Conn, 1)
				go func() {
					s, _ := iwarp.Server(ctx, b, &iwarp.Config{Device: d})
					ch <- s
				}()
				client := must(iwarp.Client(ctx, a, nil))(t)
				server := <-ch
				defer client.Abort()
				for range 10 {
					check(t, "Send", client.Send(ctx, pattern(60000)))
				}
				check(t, "Write", client.RDMAWrite(ctx, nil, iwarp.RemoteBuffer{}))
				waitReceived(t, server, 12) // with the RTR
				if d.Use().Held < 500<<10 {
					t.Fatalf("%d octets held", d.Use().Held)
				}
				c.end(client, server)
			}()
			for ctx := testContext(t); ctx.Err() == nil; {
				if d.Use().Held == 0 {
					return
				}
				if c.name != "forgotten" {
					break
				}
				runtime.GC()
				runtime.Gosched()
			}
			t.Errorf("%d octets are held still", d.Use().Held)
		})
	}
}

// Receiving allocates nothing, whatever the size of messages and segments.
func TestAllocsRecv(t *testing.T) {
	for _, size := range []int{0, 10, 64, 65, 1000, 20000, 64 << 10} {
		for _, fpdu := range []int{0, 1460} {
			a, b := tcpPair(t, &iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: fpdu}}, nil)
			ctx := context.Background()
			data, buf := make([]byte, size), make([]byte, size)
			allocs(t, fmt.Sprintf("%d octets, FPDUs of %d", size, fpdu), 0.2, func() {
				check(t, "Send", a.Send(ctx, data))
				if _, err := b.Recv(ctx, buf); err != nil {
					t.Fatal(err)
				}
			})
			if size != 1000 && size != 20000 {
				continue
			}
			allocs(t, fmt.Sprintf("20 messages of %d octets, FPDUs of %d", size, fpdu), 2, func() {
				for range 20 {
					check(t, "Send", a.Send(ctx, data))
				}
				for range 20 {
					if _, err := b.Recv(ctx, buf); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
