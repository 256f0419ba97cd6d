package iwarptest_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// Await tells apart all that can come, and AwaitStartup what is no startup frame.
func TestAwait(t *testing.T) {
	frame := iwarptest.FPDU(iwarptest.Send(1, []byte("hello")))
	bad := bytes.Clone(frame)
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		name string
		do   func(c *iwarptest.Conn)
		want []iwarptest.EventKind
	}{
		{
			name: "silence", do: func(*iwarptest.Conn) {},
			want: []iwarptest.EventKind{iwarptest.EventSilence, iwarptest.EventSilence},
		},
		{
			name: "frame and FIN", do: func(c *iwarptest.Conn) { mustWrite(t, c, string(frame)); _ = c.CloseWrite() },
			want: []iwarptest.EventKind{iwarptest.EventFrame, iwarptest.EventFIN},
		},
		{
			name: "half a frame",
			do:   func(c *iwarptest.Conn) { mustWrite(t, c, string(frame[:9])); _ = c.CloseWrite() },
			want: []iwarptest.EventKind{iwarptest.EventFIN},
		},
		{
			name: "bad frame", do: func(c *iwarptest.Conn) { mustWrite(t, c, string(bad)) },
			want: []iwarptest.EventKind{iwarptest.EventBadFrame},
		},
		{
			name: "reset", do: func(c *iwarptest.Conn) { _ = c.Abort() },
			want: []iwarptest.EventKind{iwarptest.EventReset},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := iwarptest.Pipe(nil)
			p := iwarptest.NewPeer(t, a)
			c.do(b)
			for i, want := range c.want {
				if e := p.Await(time.Second); e.Kind != want {
					t.Errorf("%s: event %d: %+v, want kind %d", c.name, i, e, want)
				}
			}
		})
	}
}

func TestAwaitStartup(t *testing.T) {
	reply := iwarptest.Reply(iwarptest.FlagC, 1, []byte("abc"))
	for _, c := range []struct {
		name   string
		octets []byte
		fin    bool
		err    error
	}{
		{name: "whole", octets: reply, err: nil},
		{name: "cut", octets: reply[:22], fin: true, err: io.ErrUnexpectedEOF},
		{name: "nothing", fin: true, err: io.EOF},
		{name: "stalled", octets: reply[:3], err: os.ErrDeadlineExceeded},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, b := iwarptest.Pipe(nil)
			p := iwarptest.NewPeer(t, a)
			mustWrite(t, b, string(c.octets))
			if c.fin {
				_ = b.CloseWrite()
			}
			got, err := p.AwaitStartup(time.Second)
			if !errors.Is(err, c.err) || (err == nil && !bytes.Equal(got, reply)) {
				t.Errorf("%s: %x, %v, want %v", c.name, got, err, c.err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		a, b := iwarptest.Pipe(nil)
		p := iwarptest.NewPeer(t, a)
		mustWrite(t, b, "HTTP")
		if _, err := p.AwaitStartup(time.Second); err == nil || !bytes.Equal(p.Unread(), []byte("HTTP")) {
			t.Errorf("text: %v, unread %q", err, p.Unread())
		}
	})
}
