package sctp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/sctp"
)

// kernelListen listens by the kernel's SCTP, and skips the test where there is none. The interop tests run
// these in a guest, where there has to be: IWARP_KERNEL_SCTP=1.
func kernelListen(t *testing.T, lc *iwarp.ListenConfig, sc *sctp.Config) *iwarp.Listener {
	t.Helper()
	l, err := sctp.ListenWith("sctp", "127.0.0.1:0", lc, sc)
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("IWARP_KERNEL_SCTP") == "" {
		t.Skip(err)
	}
	check(t, "ListenWith", err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Where the kernel has no SCTP, the error says what is missing.
func TestKernelMissing(t *testing.T) {
	l, err := sctp.Listen("sctp", "127.0.0.1:0", nil)
	if err == nil {
		_ = l.Close()
		t.Skip("this kernel has SCTP")
	}
	_, derr := sctp.Dial(testContext(t), "sctp", "127.0.0.1:1", nil)
	for _, err := range []error{err, derr} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "kernel has no SCTP") {
			t.Errorf("%v", err)
		}
	}
}

// All operations work over the kernel's SCTP, from both ends; Private Data and the end do, too.
// Shows: SCTP-5.1-01, SCTP-6.2-02, SCTP-9-01, SCTP-10-01
func TestKernelOperations(t *testing.T) {
	ctx := testContext(t)
	l := kernelListen(t, &iwarp.ListenConfig{Config: &iwarp.Config{PrivateData: []byte("welcome")}}, nil)
	ch := accept(ctx, l)
	a, err := sctp.Dial(ctx, "sctp", l.Addr().String(), &iwarp.Config{PrivateData: []byte("hello")})
	check(t, "Dial", err)
	got := <-ch
	check(t, "Accept", got.err)
	b := got.c
	if x, y := string(a.ConnectionState().PrivateData), string(b.ConnectionState().PrivateData); x != "welcome" ||
		y != "hello" {
		t.Errorf("Private Data %q and %q", x, y)
	}
	if a.RemoteAddr().Network() != "sctp" || a.RemoteAddr().String() != l.Addr().String() {
		t.Errorf("the peer is %v, want %v", a.RemoteAddr(), l.Addr())
	}
	for _, ends := range [][2]*iwarp.Conn{{a, b}, {b, a}} {
		exercise(t, ends[0], ends[1])
	}
	closeBoth(t, a, b)
}

// exercise moves 4 MiB both ways, and a message.
func exercise(t *testing.T, a, b *iwarp.Conn) {
	t.Helper()
	ctx := testContext(t)
	const n = 4 << 20
	mr, err := b.NewMR(make([]byte, n), iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic)
	check(t, "NewMR", err)
	defer mr.Close()
	check(t, "Write", a.RDMAWrite(ctx, pattern(n), mr.Remote()))
	check(t, "Send", a.Send(ctx, []byte("written")))
	wantRecv(t, b, "written")
	back := make([]byte, n)
	check(t, "Read", a.RDMARead(ctx, back, mr.Remote()))
	if !bytes.Equal(back, pattern(n)) {
		t.Error("what was read is not what was written")
	}
	was, err := a.FetchAdd(ctx, mr.Remote().Slice(8, 8), 1)
	check(t, "FetchAdd", err)
	again, err := a.CompareSwap(ctx, mr.Remote().Slice(8, 8), was+1, 7)
	check(t, "CompareSwap", err)
	if again != was+1 {
		t.Errorf("FetchAdd left 0x%x, want 0x%x", again, was+1)
	}
}

// A Write where none is allowed ends the connection with RDMAP's Terminate, which arrives.
func TestKernelTerminate(t *testing.T) {
	ctx := testContext(t)
	l := kernelListen(t, nil, nil)
	ch := accept(ctx, l)
	a, err := sctp.Dial(ctx, "sctp", l.Addr().String(), nil)
	check(t, "Dial", err)
	b := <-ch
	check(t, "Accept", b.err)
	mr, err := b.c.NewMR(make([]byte, 100), iwarp.RemoteRead)
	check(t, "NewMR", err)
	defer mr.Close()
	_ = a.RDMAWrite(ctx, []byte("not allowed"), mr.Remote())
	_, err = a.Recv(ctx, make([]byte, 10))
	var perr *iwarp.ProtocolError
	if !errors.As(err, &perr) || !strings.Contains(err.Error(), "peer reports") {
		t.Errorf("Recv: %v", err)
	}
	_, _ = b.c.Recv(ctx, nil)
	_ = a.Close()
	_ = b.c.Close()
	if b.c.Err() == nil {
		t.Error("the responder ended without an error")
	}
}

// Many streams of one association, one after the other and at once: identifiers are used again.
// Shows: SCTP-6.6-03, SCTP-8-01
func TestKernelStreams(t *testing.T) {
	ctx := testContext(t)
	l := kernelListen(t, nil, &sctp.Config{Streams: 9})
	go func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			go func() {
				buf := make([]byte, 100)
				m, err := c.Recv(ctx, buf)
				if err == nil {
					_ = c.Send(ctx, buf[:m.Length])
				}
				_, _ = c.Recv(ctx, buf)
				_ = c.Close()
			}()
		}
	}()
	assoc, err := sctp.Associate(ctx, "sctp", l.Addr().String(), &sctp.Config{Streams: 4})
	check(t, "Associate", err)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 25 {
				if err := echo(ctx, assoc, fmt.Sprintf("%d of %d", j, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	check(t, "Close", assoc.Close())
	<-assoc.Done()
}

func echo(ctx context.Context, assoc *sctp.Association, what string) error {
	c, err := assoc.Dial(ctx, nil)
	if err != nil {
		return fmt.Errorf("Dial: %w", err)
	}
	defer c.Close()
	if err := c.Send(ctx, []byte(what)); err != nil {
		return fmt.Errorf("Send: %w", err)
	}
	buf := make([]byte, 100)
	m, err := c.Recv(ctx, buf)
	if err == nil && string(buf[:m.Length]) != what {
		err = fmt.Errorf("%q came back as %q", what, buf[:m.Length])
	}
	return err
}

// Whoever indicates something else has no association.
// Shows: SCTP-7.1-02, SCTP-11.1-01, SCTP-11.1-02
func TestKernelOtherIndication(t *testing.T) {
	l := kernelListen(t, nil, nil)
	_, err := sctp.Associate(testContext(t), "sctp", l.Addr().String(), &sctp.Config{Indication: 7})
	// The listener's ABORT may be faster.
	if err == nil || !errors.Is(err, sctp.ErrOtherUse) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want %v", err, sctp.ErrOtherUse)
	}
}

// A peer that is not there is refused at once, and one that does not answer until ctx ends.
func TestKernelNobody(t *testing.T) {
	l := kernelListen(t, nil, nil)
	addr := l.Addr().String()
	check(t, "Close", l.Close())
	if c, err := sctp.Dial(testContext(t), "sctp", addr, nil); err == nil {
		_ = c.Close()
		t.Error("nobody listens, and Dial succeeds")
	} else if !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
}

// The end of one side's association, by ABORT, ends the other's connections with an error.
// Shows: SCTP-11.3-01, SCTP-11.3-02
func TestKernelAbort(t *testing.T) {
	ctx := testContext(t)
	l := kernelListen(t, nil, nil)
	ch := accept(ctx, l)
	a, err := sctp.Dial(ctx, "sctp", l.Addr().String(), nil)
	check(t, "Dial", err)
	b := <-ch
	check(t, "Accept", b.err)
	a.Abort()
	if _, err := b.c.Recv(ctx, nil); err == nil || ctx.Err() != nil {
		t.Errorf("Recv after ABORT: %v", err)
	}
	_ = b.c.Close()
}

// Both kinds of SCTP are peers, where the kernel has encapsulation in UDP (RFC 6951): the interop tests
// say at which port.
func TestKernelAndUserSpace(t *testing.T) {
	encapsulation := os.Getenv("IWARP_KERNEL_SCTP_UDP")
	if encapsulation == "" {
		t.Skip("IWARP_KERNEL_SCTP_UDP, the port of the sysctl net.sctp.udp_port, is not set")
	}
	ctx := testContext(t)
	l, err := sctp.ListenWith("sctp", "127.0.0.1:5000", nil, &sctp.Config{MTU: 1400})
	check(t, "ListenWith", err)
	defer l.Close()
	ch := accept(ctx, l)
	d := sctp.Dialer{SCTP: &sctp.Config{MTU: 1400}}
	a, err := d.Dial(ctx, "udp", "127.0.0.1:"+encapsulation)
	check(t, "Dial", err)
	b := <-ch
	check(t, "Accept", b.err)
	t.Log(a.Stats().MULPDU, b.c.Stats().MULPDU)
	exercise(t, a, b.c)
	exercise(t, b.c, a)
	closeBoth(t, a, b.c)
}
