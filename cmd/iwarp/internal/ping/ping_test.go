package ping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

func TestPing(t *testing.T) {
	s := cmdtest.Serve(t, Main, "--rtr", "write,read,send")
	ctx := cmdtest.Context(t)
	for _, args := range []string{
		"", "--size 1", "--size 65537", "--markers --size 70000", "--rev 1", "--rev 1 --markers",
		"--rtr write", "--rtr read", "--rtr send", "--rtr none", "--crc off", "--json",
	} {
		t.Run(args, func(t *testing.T) {
			code, out, errs := client(ctx, append(strings.Fields(args), s.Addr, "--count", "3")...)
			if code != ui.ExitOK {
				t.Errorf("exit code %d:\n%s%s", code, out, errs)
			}
		})
	}
	if code := s.Stop(); code != ui.ExitOK {
		t.Errorf("server: exit code %d", code)
	}
	cmdtest.MustContain(t, "server", s.Out.String(), "served 12 clients (0 failed), 36 iterations")
}

// Without a count the client goes on until it is interrupted, which is no failure.
func TestPingForever(t *testing.T) {
	s := cmdtest.Serve(t, Main)
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	out := cmdtest.NewLines()
	code := make(chan int)
	go func() { code <- Main(ctx, []string{"ping", s.Addr, "--count", "0"}, out, out) }()
	out.Await(t, "iteration 3:")
	cancel()
	if c := <-code; c != ui.ExitOK {
		t.Errorf("exit code %d:\n%s", c, out)
	}
	cmdtest.MustContain(t, "client", out.String(), "iterations verified")
}

// An interrupt before the count is reached is one.
func TestPingInterrupted(t *testing.T) {
	asked := make(chan struct{})
	addr := rpingServer(t, func(ctx context.Context, c *iwarp.Conn) error {
		defer close(asked)
		_, err := take(ctx, c)
		if err == nil {
			asked <- struct{}{}
			<-c.Done()
		}
		return err
	})
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	out := cmdtest.NewLines()
	code := make(chan int)
	go func() { code <- Main(ctx, []string{"ping", addr, "--count", "5"}, out, out) }()
	out.Await(t, "connected")
	<-asked // else the reset may overtake the advert
	cancel()
	if c := <-code; c != ui.ExitFailed {
		t.Errorf("exit code %d:\n%s", c, out)
	}
	cmdtest.MustContain(t, "client", out.String(), "interrupted")
}

// An interrupt while the server is silent is told as such.
func TestPingInterruptedEarly(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	out, code := cmdtest.NewLines(), make(chan int)
	go func() { code <- Main(ctx, []string{"ping", ln.Addr().String()}, out, out) }()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	cancel()
	if c := <-code; c != ui.ExitFailed {
		t.Errorf("exit code %d", c)
	}
	if want := "iwarp: connecting to " + ln.Addr().String() + ": interrupted\n"; out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// A client that misbehaves is told from one that leaves, and others go on.
func TestBadClients(t *testing.T) {
	send := func(b []byte) func(context.Context, *iwarp.Conn) error {
		return func(ctx context.Context, c *iwarp.Conn) error { return c.Send(ctx, b) }
	}
	lend := func(n int, claim uint32, access iwarp.Access) func(context.Context, *iwarp.Conn) error {
		return func(ctx context.Context, c *iwarp.Conn) error {
			mr, err := c.NewMR(make([]byte, n), access)
			if err != nil {
				return err
			}
			return c.Send(ctx, advert{at: mr.Remote(), size: claim}.appendTo(nil))
		}
	}
	for _, test := range []struct {
		name string
		play func(context.Context, *iwarp.Conn) error
		want string
	}{
		{
			name: "a short advert", play: send(make([]byte, 15)),
			want: "the advert of a source has 15 octets: 16 are due",
		},
		{name: "a long advert", play: send(make([]byte, 17)), want: "the advert of a source has 17 octets: 16 are due"},
		{
			name: "a huge message", play: send(make([]byte, 70000)),
			want: "waiting for the advert of a source: DDP untagged buffer",
		},
		{
			name: "immediate data",
			play: func(ctx context.Context, c *iwarp.Conn) error { return c.SendImmediate(ctx, 1) },
			want: "came as Immediate Data",
		},
		{
			name: "no octets", play: send(advert{size: 0}.appendTo(nil)),
			want: "a source of 0 octets: from 1 to 1000 are served (--max-size)",
		},
		{
			name: "too many", play: send(advert{size: 1001}.appendTo(nil)),
			want: "a source of 1001 octets: from 1 to 1000",
		},
		{name: "most of all", play: send(advert{size: 1<<32 - 1}.appendTo(nil)), want: "a source of 4294967295 octets"},
		{
			name: "an STag of its own making",
			play: send(advert{at: iwarp.RemoteBuffer{STag: 0x11223344}, size: 10}.appendTo(nil)),
			want: "RDMA Read of 10 octets at STag 0x11223344",
		},
		{name: "more than it has", play: lend(10, 11, iwarp.RemoteRead), want: "(0/1/01)"},
		{name: "no right to read", play: lend(10, 10, iwarp.RemoteWrite), want: "(0/1/02)"},
		{
			name: "nothing at all", play: func(context.Context, *iwarp.Conn) error { return nil },
			want: "no advert of a source within 500ms",
		},
		{name: "half an iteration", play: lend(10, 10, iwarp.RemoteRead), want: "no advert of a sink within 500ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := cmdtest.Serve(t, Main, "--max-size", "1000", "--timeout", "500ms")
			c := dial(t, s.Addr)
			if err := test.play(cmdtest.Context(t), c); err != nil {
				t.Fatal(err)
			}
			s.Err.Await(t, `error: .*\n`)
			cmdtest.MustContain(t, "server", s.Err.String(), test.want)
			if code, out, errs := client(cmdtest.Context(t), s.Addr, "--count", "1"); code != ui.ExitOK {
				t.Errorf("another client: exit code %d:\n%s%s", code, out, errs)
			}
			if code := s.Stop(); code != ui.ExitOK {
				t.Errorf("server: exit code %d", code)
			}
			cmdtest.MustContain(t, "server", s.Out.String(), "served 2 clients (1 failed), 1 iteration")
		})
	}
}

// A server that is out of descriptors for a while goes on afterwards.
func TestAcceptErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	none := &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept", syscall.EMFILE)}
	out, errs := cmdtest.NewLines(), cmdtest.NewLines()
	s := &pingServer{
		out: ui.NewOutput(out, errs), cfg: &iwarp.Config{}, startup: &ui.StartupFlags{}, timeout: cmdtest.Patience,
		maxSize: 1000, slots: make(chan struct{}, 1),
	}
	ctx, cancel := context.WithCancel(cmdtest.Context(t))
	ended := make(chan error)
	go func() { ended <- s.serveOn(ctx, cmdtest.ErrorsFirst(ln, none, none, none)) }()
	if code, out, errs := client(ctx, addr, "--count", "1"); code != ui.ExitOK {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := strings.Count(errs.String(), "accept: accept"); n != 1 {
		t.Errorf("it is said %d times, want once:\n%s", n, errs)
	}
	broken := errors.New("broken")
	if err := s.serveOn(cmdtest.Context(t), cmdtest.ErrorsFirst(ln, broken)); !errors.Is(err, broken) {
		t.Errorf("an error that does not pass: %v", err)
	}
}

// Connections that say nothing take no client's place, and one that is no iWARP client
// is told of.
func TestPingSilentClients(t *testing.T) {
	s := cmdtest.Serve(t, Main, "--max-clients", "1")
	for range 10 {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if code, out, errs := client(cmdtest.Context(t), s.Addr, "--count", "1"); code != ui.ExitOK {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	s.Err.Await(t, "error: startup failed: MPA: invalid Request or Reply frame .*\n")
	if code := s.Stop(); code != ui.ExitOK {
		t.Errorf("server: exit code %d", code)
	}
	cmdtest.MustContain(t, "server", s.Out.String(), "served 1 client (0 failed), 1 iteration")
}

// What a client says that it has costs the server little until it comes.
func TestMemoryOnTrust(t *testing.T) {
	const size = 5*onTrust + 7
	for _, test := range []struct {
		name string
		has  int
		want int // octets that the server holds in the end, at most
		ok   bool
	}{
		{name: "all that it says", has: size, want: size, ok: true},
		{name: "nearly nothing", has: 64, want: onTrust, ok: false},
		{name: "half", has: size / 2, want: size / 2 * 2, ok: false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := cmdtest.Context(t)
			held := make(chan int, 1)
			addr := rpingServer(t, func(ctx context.Context, conn *iwarp.Conn) error {
				c := &servedClient{steps: steps{conn: conn, timeout: cmdtest.Patience}}
				a, err := take(ctx, conn)
				if err == nil {
					err = c.read(ctx, a)
					if test.ok && !bytes.Equal(c.buf, bytes.Repeat([]byte("0123456"), size)[:size]) {
						t.Error("not what the client has")
					}
				}
				if (err == nil) != test.ok {
					t.Errorf("read: %v", err)
				}
				held <- cap(c.buf)
				return nil
			})
			c := dial(t, addr)
			src, err := c.NewMR(bytes.Repeat([]byte("0123456"), size)[:test.has], iwarp.RemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			if err := c.Send(ctx, advert{at: src.Remote(), size: size}.appendTo(nil)); err != nil {
				t.Fatal(err)
			}
			if n := <-held; n > test.want {
				t.Errorf("the server holds %d octets for %d that came, want at most %d", n, test.has, test.want)
			}
		})
	}
}

// The server writes no more than a sink holds, and refuses a sink without octets.
func TestSinkSizes(t *testing.T) {
	for _, test := range []struct {
		size uint32
		want string
	}{
		{size: 0, want: "a sink of 0 octets"},
		{size: 5, want: ""},
		{size: 10, want: ""},
		{size: 1001, want: "a sink of 1001 octets"},
	} {
		t.Run(fmt.Sprint(test.size), func(t *testing.T) {
			s := cmdtest.Serve(t, Main, "--max-size", "1000")
			ctx, c := cmdtest.Context(t), dial(t, s.Addr)
			src, _ := c.NewMR([]byte("0123456789"), iwarp.RemoteRead)
			sink, _ := c.NewMR(make([]byte, 10), iwarp.RemoteWrite)
			if err := c.Send(ctx, advert{at: src.Remote(), size: 10}.appendTo(nil)); err != nil {
				t.Fatal(err)
			}
			if _, err := take(ctx, c); err != nil {
				t.Fatal(err)
			}
			if err := c.Send(ctx, advert{at: sink.Remote(), size: test.size}.appendTo(nil)); err != nil {
				t.Fatal(err)
			}
			if test.want != "" {
				s.Err.Await(t, test.want)
				return
			}
			if _, err := take(ctx, c); err != nil {
				t.Fatal(err)
			}
			want := "0123456789"[:test.size] + strings.Repeat("\x00", 10-int(test.size))
			if got := string(sink.Bytes()); got != want {
				t.Errorf("sink %q, want %q", got, want)
			}
		})
	}
}

// A client believes no server that does not do its part.
func TestBadServers(t *testing.T) {
	goAhead := make([]byte, advertLen)
	for _, test := range []struct {
		name string
		play func(context.Context, *iwarp.Conn, advert) error
		want string
	}{
		{name: "go-ahead without a Write", play: func(ctx context.Context, c *iwarp.Conn, _ advert) error {
			if err := c.Send(ctx, goAhead); err != nil {
				return err
			}
			if _, err := take(ctx, c); err != nil {
				return err
			}
			return c.Send(ctx, goAhead)
		}, want: "wrong data came back: octet 1 of 64 is 0xff, 0x72 was sent"},
		{name: "one octet missing", play: func(ctx context.Context, c *iwarp.Conn, src advert) error {
			b := make([]byte, src.size)
			if err := c.RDMARead(ctx, b, src.at); err != nil {
				return err
			}
			if err := c.Send(ctx, goAhead); err != nil {
				return err
			}
			sink, err := take(ctx, c)
			if err != nil {
				return err
			}
			if err := c.RDMAWrite(ctx, b[:63], sink.at); err != nil {
				return err
			}
			return c.Send(ctx, goAhead)
		}, want: "octet 64 of 64 is 0xff, 0x00 was sent"},
		{name: "short go-ahead", play: func(ctx context.Context, c *iwarp.Conn, _ advert) error {
			return c.Send(ctx, goAhead[:3])
		}, want: "go-ahead after the source's advert has 3 octets: 16 are due"},
		{name: "Write into the source", play: func(ctx context.Context, c *iwarp.Conn, src advert) error {
			return c.RDMAWrite(ctx, goAhead, src.at)
		}, want: "iteration 1: waiting for the go-ahead after the source's advert: DDP tagged buffer: "},
		{
			name: "close", play: func(context.Context, *iwarp.Conn, advert) error { return nil },
			want: "closed the connection before its go-ahead after the source's advert",
		},
		{name: "silence", play: func(_ context.Context, c *iwarp.Conn, _ advert) error {
			<-c.Done()
			return nil
		}, want: "no go-ahead after the source's advert within 500ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			addr := rpingServer(t, func(ctx context.Context, c *iwarp.Conn) error {
				src, err := take(ctx, c)
				if err != nil {
					return err
				}
				return test.play(ctx, c, src)
			})
			code, out, errs := client(cmdtest.Context(t), addr, "--count", "3", "--timeout", "500ms")
			if code != ui.ExitFailed {
				t.Errorf("exit code %d:\n%s%s", code, out, errs)
			}
			cmdtest.MustContain(t, "client", errs, test.want)
			cmdtest.MustContain(t, "client", out, "0 of 3 iterations verified")
		})
	}
}
