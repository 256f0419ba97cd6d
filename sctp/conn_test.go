package sctp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/sctp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func check(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// pattern returns n octets that tell where they belong.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i) + byte(i>>16)
	}
	return b
}

// listen starts a listener on loopback, which ends with the test.
func listen(t testing.TB, cfg *iwarp.Config) *iwarp.Listener {
	t.Helper()
	l, err := sctp.Listen("udp", "127.0.0.1:0", cfg)
	check(t, "Listen", err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// accepted is a connection that a listener has accepted, or why not.
type accepted struct {
	c   *iwarp.Conn
	err error
}

func accept(ctx context.Context, l *iwarp.Listener) <-chan accepted {
	ch := make(chan accepted, 1)
	go func() {
		c, err := l.Accept(ctx)
		ch <- accepted{c, err}
	}()
	return ch
}

// connect makes a connection over SCTP on loopback.
func connect(t testing.TB, client, server *iwarp.Config) (c, s *iwarp.Conn) {
	t.Helper()
	ctx := testContext(t)
	l := listen(t, server)
	ch := accept(ctx, l)
	c, err := sctp.Dial(ctx, "udp", l.Addr().String(), client)
	check(t, "Dial", err)
	a := <-ch
	check(t, "Accept", a.err)
	return c, a.c
}

// closeBoth closes both ends gracefully.
func closeBoth(t testing.TB, a, b *iwarp.Conn) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- b.Close() }()
	check(t, "Close", a.Close())
	check(t, "the peer's Close", <-done)
	if a.Err() != nil || b.Err() != nil {
		t.Errorf("after Close: %v, %v", a.Err(), b.Err())
	}
}

func wantRecv(t testing.TB, c *iwarp.Conn, want string) {
	t.Helper()
	buf := make([]byte, 1<<16)
	m, err := c.Recv(testContext(t), buf)
	check(t, "Recv", err)
	if got := string(buf[:m.Length]); got != want {
		t.Fatalf("received %q, want %q", got, want)
	}
}

// Every operation works over SCTP as it does over TCP.
// Shows: SCTP-6.2-01, SCTP-6.2-02, SCTP-9-01, SCTP-5.2.3-05, MPA2-7-05
func TestOperations(t *testing.T) {
	ctx := testContext(t)
	a, b := connect(t, &iwarp.Config{PrivateData: []byte("hello")}, &iwarp.Config{PrivateData: []byte("welcome")})
	if got := string(a.ConnectionState().PrivateData); got != "welcome" {
		t.Errorf("Private Data of Accept: %q", got)
	}
	if got := string(b.ConnectionState().PrivateData); got != "hello" {
		t.Errorf("Private Data of Initiate: %q", got)
	}
	const n = 1 << 20
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
	check(t, "Immediate", b.SendImmediate(ctx, 42))
	m, err := a.Recv(ctx, nil)
	check(t, "Recv", err)
	if m.Immediate != 42 {
		t.Errorf("Immediate Data %d", m.Immediate)
	}
	if st := a.Stats(); st.LLP.SegmentsSent == 0 || st.MULPDU < sctp.MinSegment || st.MPA.FPDUsSent != 0 {
		t.Errorf("%+v", st)
	}
	closeBoth(t, a, b)
	if _, err := b.Recv(ctx, nil); !errors.Is(err, io.EOF) {
		t.Errorf("Recv after the end: %v", err)
	}
}
