package iwarptest_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// failing is a TB whose Fatalf is seen by the test.
type failing struct{ testing.TB }

type failure string

func (failing) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

// wantFailure runs f and wants it to fail with that text in the message.
func wantFailure(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		got, ok := recover().(failure)
		if !ok || !strings.Contains(string(got), want) {
			t.Errorf("fails with %q, want %q in it", got, want)
		}
	}()
	f()
}

// peers returns both ends of a pipe as peers, in a bubble.
func peers(t *testing.T, f func(a, b *iwarptest.Peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := iwarptest.Pipe(nil)
		f(iwarptest.NewPeer(failing{t}, a), iwarptest.NewPeer(failing{t}, b))
	})
}

func TestPeerDialogue(t *testing.T) {
	for _, m := range []struct{ request, reply byte }{
		{request: 0, reply: 0},
		{request: iwarptest.FlagC, reply: 0},
		{request: iwarptest.FlagM, reply: iwarptest.FlagC},
		{request: 0, reply: iwarptest.FlagM},
		{request: iwarptest.FlagM | iwarptest.FlagC, reply: iwarptest.FlagM},
	} {
		peers(t, func(a, b *iwarptest.Peer) {
			request := iwarptest.Request(m.request, 1, []byte("hi"))
			reply := iwarptest.Reply(m.reply, 1, nil)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if got := b.Respond("request", reply); string(got) != string(request) {
					t.Errorf("request %x, want %x", got, request)
				}
				b.WantFrame("first", iwarptest.Send(1, counting(700)))
				b.WantFrame("second", iwarptest.Send(2, nil))
				b.Send(iwarptest.Write(1, 2, counting(2000)))
				b.WantEOF("end")
			}()
			if got := a.Initiate("reply", request); string(got) != string(reply) {
				t.Errorf("reply %x, want %x", got, reply)
			}
			a.Send(iwarptest.Send(1, counting(700)), iwarptest.Send(2, nil))
			a.WantFrame("answer", iwarptest.Write(1, 2, counting(2000)))
			a.WantIdle("nothing more")
			a.CloseWrite()
			<-done
			wantMarkers := m.reply&iwarptest.FlagM != 0
			if a.Out.Markers != wantMarkers || b.In.Markers != wantMarkers || a.Out != b.In || a.In != b.Out {
				t.Errorf("initiator %+v %+v, responder %+v %+v", a.Out, a.In, b.Out, b.In)
			}
			if noCRC := (m.request|m.reply)&iwarptest.FlagC == 0; a.Out.NoCRC != noCRC {
				t.Errorf("flags %#02x and %#02x: NoCRC %v", m.request, m.reply, a.Out.NoCRC)
			}
		})
	}
}

func TestPeerWants(t *testing.T) {
	peers(t, func(a, b *iwarptest.Peer) {
		a.SendRaw([]byte("ab"), []byte("c"))
		b.WantRaw("raw", []byte("abc"))
		a.Send(iwarptest.Terminate(0x1203, iwarptest.Send(7, nil)))
		if body := b.WantTerminate("MSN", 0x1203); len(body) != 4+2+18 {
			t.Errorf("%d octets of Terminate", len(body))
		}
		start := time.Now()
		b.WantIdle("silence")
		if got := time.Since(start); got != iwarptest.DefaultIdle {
			t.Errorf("listens for %v", got)
		}
		b.Idle = time.Hour
		b.WantIdle("long silence")
		a.Abort()
		b.WantReset("reset")
	})
}

func TestPeerFailures(t *testing.T) {
	hello := iwarptest.Send(1, []byte("hello"))
	badCRC := iwarptest.FPDU(hello)
	badCRC[31] ^= 1
	for _, tt := range []struct {
		name string
		send func(a *iwarptest.Peer)
		want func(b *iwarptest.Peer)
		text string
	}{
		{
			name: "other frame", send: func(a *iwarptest.Peer) { a.Send(hello) },
			want: func(b *iwarptest.Peer) { b.WantFrame("why", iwarptest.Send(2, nil)) },
			text: "why:\ngot  Send QN 0 MSN 1",
		},
		{
			name: "no frame", want: func(b *iwarptest.Peer) { b.WantFrame("why", hello) },
			text: "why: want an FPDU, have 0 octets",
		},
		{
			name: "half a frame", send: func(a *iwarptest.Peer) { a.SendRaw(badCRC[:9]); a.CloseWrite() },
			want: func(b *iwarptest.Peer) { b.Frame("why") }, text: "have 9 octets of one and no more come: EOF",
		},
		{
			name: "bad frame", send: func(a *iwarptest.Peer) { a.SendRaw(badCRC) },
			want: func(b *iwarptest.Peer) { b.Frame("why") }, text: "why: bad FPDU: the CRC",
		},
		{
			name: "other octets", send: func(a *iwarptest.Peer) { a.SendRaw([]byte("abc")) },
			want: func(b *iwarptest.Peer) { b.WantRaw("why", []byte("ab!")) }, text: "why: got octets 616263",
		},
		{
			name: "too few octets", send: func(a *iwarptest.Peer) { a.SendRaw([]byte("abc")) },
			want: func(b *iwarptest.Peer) { b.WantRaw("why", []byte("abcd")) }, text: "have 3 of 4 octets (616263)",
		},
		{
			name: "no Terminate", send: func(a *iwarptest.Peer) { a.Send(hello) },
			want: func(b *iwarptest.Peer) { b.WantTerminate("why", 0x1203) },
			text: "why: got Send QN 0 MSN 1 MO 0 L +5 68656c6c6f, want Terminate 1203",
		},
		{
			name: "other Terminate", send: func(a *iwarptest.Peer) { a.Send(iwarptest.Terminate(0x1202, nil)) },
			want: func(b *iwarptest.Peer) { b.WantTerminate("why", 0x1203) }, text: "why: Terminate 1202, want 1203",
		},
		{
			name: "not idle", send: func(a *iwarptest.Peer) { a.Send(hello) },
			want: func(b *iwarptest.Peer) { b.WantIdle("why") }, text: "why: want silence, got FPDU of Send",
		},
		{
			name: "not idle, octets", send: func(a *iwarptest.Peer) { a.SendRaw([]byte("abc")) },
			want: func(b *iwarptest.Peer) { b.WantIdle("why") }, text: "got octets 616263",
		},
		{
			name: "not idle, many octets", send: func(a *iwarptest.Peer) { a.SendRaw(make([]byte, 200)) },
			want: func(b *iwarptest.Peer) { b.In.Markers = true; b.In.Pos = 4; b.WantIdle("why") }, text: "00...",
		},
		{
			name: "not idle, end", send: func(a *iwarptest.Peer) { a.CloseWrite() },
			want: func(b *iwarptest.Peer) { b.WantIdle("why") }, text: "why: want silence, got the end: EOF",
		},
		{
			name: "frame before the end", send: func(a *iwarptest.Peer) { a.Send(hello); a.CloseWrite() },
			want: func(b *iwarptest.Peer) { b.WantEOF("why") }, text: "why: want the peer's FIN, got FPDU of Send",
		},
		{
			name: "no end", want: func(b *iwarptest.Peer) { b.Timeout = time.Hour; b.WantEOF("why") },
			text: "why: want the peer's FIN, got read pipe b->a: i/o timeout",
		},
		{
			name: "reset at the end", send: func(a *iwarptest.Peer) { a.Abort() },
			want: func(b *iwarptest.Peer) { b.WantEOF("why") }, text: syscall.ECONNRESET.Error(),
		},
		{
			name: "FIN for a reset", send: func(a *iwarptest.Peer) { a.CloseWrite() },
			want: func(b *iwarptest.Peer) { b.WantReset("why") }, text: "why: want a reset, got EOF",
		},
		{
			name: "no startup frame", send: func(a *iwarptest.Peer) { a.SendRaw(make([]byte, 20)) },
			want: func(b *iwarptest.Peer) { b.Respond("why", nil) }, text: "why: startup frame with key",
		},
		{
			name: "Write to nobody", send: func(a *iwarptest.Peer) { a.Abort() },
			want: func(b *iwarptest.Peer) { b.Send(hello) }, text: "peer: sent 0 of 32 octets",
		},
		{
			name: "CloseWrite after a reset", send: func(a *iwarptest.Peer) { a.Abort() },
			want: func(b *iwarptest.Peer) { b.CloseWrite() }, text: "peer: CloseWrite",
		},
		{
			name: "Send after Abort", want: func(b *iwarptest.Peer) { b.Abort(); b.Send(hello) },
			text: "peer: SetWriteDeadline",
		},
		{name: "want after Abort", want: func(b *iwarptest.Peer) { b.Abort(); b.Frame("why") }, text: "closed"},
		{name: "Abort twice", want: func(b *iwarptest.Peer) { b.Abort(); b.Abort() }, text: "peer: reset"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peers(t, func(a, b *iwarptest.Peer) {
				if tt.send != nil {
					tt.send(a)
				}
				wantFailure(t, tt.text, func() { tt.want(b) })
			})
		})
	}
}

// What came before the end is taken first, and the end is remembered.
func TestPeerEndIsRemembered(t *testing.T) {
	peers(t, func(a, b *iwarptest.Peer) {
		hello := iwarptest.Send(1, nil)
		a.Send(hello, hello)
		a.CloseWrite()
		b.WantFrame("one", hello)
		b.WantFrame("two", hello)
		b.WantEOF("end")
		b.WantEOF("still the end")
	})
}

func TestPeerReadsFramesInPieces(t *testing.T) {
	fpdu := iwarptest.FPDU(iwarptest.Send(1, []byte("hello")))
	for size := range iwarptest.EverySize(fpdu) {
		synctest.Test(t, func(t *testing.T) {
			a, b := iwarptest.Pipe(nil)
			p := iwarptest.NewPeer(t, iwarptest.Split(b, size))
			go func() {
				_, _ = a.Write(fpdu)
				_, _ = io.Copy(io.Discard, a)
			}()
			p.WantFrame("in pieces", iwarptest.Send(1, []byte("hello")))
		})
	}
}

func TestPeerOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
		close(accepted)
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, b := iwarptest.NewPeer(t, c), iwarptest.NewPeer(t, <-accepted)
	a.SendRaw(iwarptest.Request(iwarptest.FlagC, 1, nil))
	b.Respond("over TCP", iwarptest.Reply(iwarptest.FlagM, 1, nil))
	a.WantStartup("over TCP", "MPA ID Rep Frame")
	a.Out.Markers = true
	a.Send(iwarptest.Send(1, counting(3000)))
	b.WantFrame("over TCP", iwarptest.Send(1, counting(3000)))
	a.Idle = time.Millisecond
	a.WantIdle("nothing came back")
	b.CloseWrite()
	a.WantEOF("FIN over TCP")
	a.Abort()
	b.WantReset("reset over TCP")
}
