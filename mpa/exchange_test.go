package mpa

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp/protocol"
)

type connResult struct {
	c   *Conn
	err error
}

func initiate(ctx context.Context, nc *memConn, o *Options) chan connResult {
	ch := make(chan connResult, 1)
	go func() {
		c, err := Initiate(ctx, nc, o)
		ch <- connResult{c, err}
	}()
	return ch
}

type inResult struct {
	in  *Incoming
	err error
}

func readRequest(ctx context.Context, nc *memConn, max ...int) chan inResult {
	ch := make(chan inResult, 1)
	go func() {
		o := &RequestOptions{}
		if len(max) > 0 {
			if o.MaxPrivateData = max[0]; max[0] == 0 {
				o.MaxPrivateData = -1
			}
		}
		in, err := ReadRequest(ctx, nc, o)
		ch <- inResult{in, err}
	}()
	return ch
}

func wantClosed(t *testing.T, c *memConn, want bool) {
	t.Helper()
	if c.closed() != want {
		t.Errorf("the conn is closed: %t, want %t", !want, want)
	}
}

// Shows: MPA-7.1-01, MPA-7.1-02, MPA-7.1-03, MPA-7.1-06, MPA-7.1.2-01, MPA-7.1.2-02, MPA-7.1.2-03, MPA-7.1.2-04
// Shows: MPA-7.1.2-08, MPA-7.1.2-13, MPA-3-10, MPA-7.1.1-16, MPA-7.1.1-19, MPA2-9.1-02
func TestExchange(t *testing.T) {
	for _, size := range []int{0, 1, 508} {
		for _, dribble := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d octets, dribbled %t", size, dribble), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, b := memPipe()
					if dribble {
						a.maxRead, a.maxWrite, b.maxRead, b.maxWrite = 1, 1, 1, 1
					}
					ini := &Options{RTR: rtrW | rtrR, IRD: 16, ORD: 8, PrivateData: pattern(size, 1)}
					res := &Options{RTR: rtrW, IRD: 4, ORD: 4, PrivateData: pattern(size, 2)}

					ch := initiate(t.Context(), a, ini)
					synctest.Wait()
					if w := a.waiting(); len(w) != 0 {
						t.Fatalf("the Responder sent %x before it had a Request", w)
					}
					in, err := ReadRequest(t.Context(), b, nil)
					if err != nil {
						t.Fatal(err)
					}
					if e, ok := in.Request().Block(); !ok || e.IRD != 16 || e.ORD != 8 ||
						!bytes.Equal(in.PrivateData(), ini.PrivateData) {
						t.Errorf("the Responder's ULP sees %+v, %x", e, in.PrivateData())
					}
					if in.Request().Revision != 2 || in.NetConn() != b {
						t.Error("Request or NetConn")
					}
					synctest.Wait()
					if w := a.waiting(); len(w) != 0 {
						t.Fatalf("a Reply before Accept: %x", w)
					}
					rc, err := in.Accept(t.Context(), res)
					if err != nil {
						t.Fatal(err)
					}
					r := <-ch
					if r.err != nil {
						t.Fatal(r.err)
					}
					p, q := r.c.Params(), rc.Params()
					if p.Revision != 2 || q.Revision != 2 || p.RTR != rtrW || q.RTR != rtrW || p.ORD != 4 ||
						p.PeerORD != 4 || q.PeerIRD != 16 {
						t.Errorf("Params are %+v and %+v", p, q)
					}
					if !bytes.Equal(p.PrivateData, res.PrivateData) || !bytes.Equal(q.PrivateData, ini.PrivateData) {
						t.Error("Private Data was changed on its way")
					}
					if _, err := in.Accept(t.Context(), res); !errors.Is(err, ErrAnswered) {
						t.Errorf("second Accept: %v", err)
					}
					if err := in.Reject(t.Context(), res, nil); !errors.Is(err, ErrAnswered) {
						t.Errorf("Reject after Accept: %v", err)
					}
				})
			})
		}
	}
}

// The Initiator's frames go out as they should, octet by octet, and what follows
// the Reply is the first FPDU.
//
// Shows: MPA-7.1-01, MPA-4.3-08, MPA-7.1.2-18, MPA-7.1-05
func TestFirstOctetsAfterStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memPipe()
		ch := initiate(t.Context(), a, &Options{Revision: 1, PrivateData: []byte("abc")})
		req := make([]byte, 23)
		if _, err := io.ReadFull(b, req); err != nil || !bytes.Equal(req, unhex(t, reqKeyHex+"40010003616263")) {
			t.Fatalf("Request is %x, %v", req, err)
		}
		_, _ = b.Write(unhex(t, repKeyHex+"c0010000")) // asks for Markers
		r := <-ch
		if r.err != nil {
			t.Fatal(r.err)
		}
		v := goldenFrames[2] // send_hello_marker0
		if err := r.c.Queue(nil, [][]byte{unhex(t, v.ulpdus[0])}, true); err != nil {
			t.Fatal(err)
		}
		if _, err := r.c.Flush(true); err != nil {
			t.Fatal(err)
		}
		if got := b.waiting(); !bytes.Equal(got, unhex(t, v.hex)) {
			t.Errorf("first FPDU is %x, want %s", got, v.hex)
		}
	})
}

// Shows: MPA-7.1.2-05, MPA-7.1.2-09, MPA-7.1.2-15, MPA-7.1.2-22, MPA-7.1.2-23, MPA-7.1.2-24, MPA-8-05
// Shows: MPA-7.1.1-02, MPA-7.1.1-15, MPA-7.1.1-18
func TestBadRequests(t *testing.T) {
	for _, tt := range []struct {
		name, hex string
		max       []int
		fin       bool
		code      protocol.Code
		text      string
	}{
		{name: "first octet is wrong", hex: "47", code: protocol.MPAStartup, text: "octet 0"},
		{name: "bad_key", hex: "4c504120494420526571204672616d6540010000", code: protocol.MPAStartup, text: "octet 0"},
		{name: "Reply", hex: repKeyHex, code: protocol.MPAStartup, text: "a Reply came"},
		{name: "rev3 without PD_Length", hex: reqKeyHex + "4003", code: protocol.MPAStartup, text: "Rev is 3"},
		{name: "rev0", hex: reqKeyHex + "c0000000", code: protocol.MPAStartup, text: "Rev is 0"},
		{name: "pd_513", hex: reqKeyHex + "40010201", code: protocol.MPAStartup, text: "513"},
		{name: "v2_s_short", hex: reqKeyHex + "50020003616263", code: protocol.MPAStartup, text: "PD_Length is 3"},
		{
			name: "pd_truncated", hex: reqKeyHex + "4001000a00000000", fin: true, code: protocol.MPAStartup,
			text: "the peer ended the connection ",
		},
		{
			name: "ULP takes 10", hex: reqKeyHex + "4001000b" + strings.Repeat("00", 11), max: []int{10},
			code: protocol.MPAStartup, text: "11 octets",
		},
		{
			name: "ULP takes 0, block only", hex: reqKeyHex + "50020005" + strings.Repeat("00", 5), max: []int{0},
			code: protocol.MPAStartup, text: "1 octets",
		},
		{
			name: "glued FPDU", hex: reqKeyHex + "4001000000174143", code: protocol.MPAStartup,
			text: "must wait for the Reply",
		},
		{
			name: "glued to 512", hex: reqKeyHex + "40010200" + strings.Repeat("11", 513), code: protocol.MPAStartup,
			text: "must wait for the Reply",
		},
		{name: "nothing", fin: true, code: protocol.MPAConnectionLost, text: "the peer ended the connection "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := memPipe()
				ch := readRequest(t.Context(), b, tt.max...)
				_, _ = a.Write(unhex(t, tt.hex))
				if tt.fin {
					_ = a.CloseWrite()
				}
				r := <-ch // no timeout: it is known from what has arrived
				if e := wantCode(t, r.err, tt.code); !strings.Contains(e.Detail, tt.text) {
					t.Errorf("%v, want %q in it", r.err, tt.text)
				}
				if tt.fin && !errors.Is(r.err, io.EOF) && !errors.Is(r.err, io.ErrUnexpectedEOF) {
					t.Errorf("%v, want the end of file in it", r.err)
				}
				wantClosed(t, b, true)
				if w := a.waiting(); len(w) > 0 {
					t.Errorf("an answer of %x, want none", w)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		a, b := memPipe()
		_, _ = a.Write(unhex(t, reqKeyHex+"4001000a"+strings.Repeat("00", 10)))
		if r := <-readRequest(t.Context(), b, 10); r.err != nil {
			t.Errorf("10 octets where the ULP takes 10: %v", r.err)
		}
	})
}

// Shows: MPA-7.1.2-10, MPA-7.1.2-11, MPA-7.1.2-15, MPA-7.1.2-19, MPA-7.1.1-04, MPA-8-05, MPA2-9.1-07, MPA2-9.2-09
func TestRepliesToInitiator(t *testing.T) {
	for _, tt := range []struct {
		name, hex  string
		fin, reset bool
		code       protocol.Code
		text       string
		conn       bool
	}{
		{name: "first octet is wrong", hex: "00", code: protocol.MPAStartup, text: "octet 0"},
		{name: "req_to_initiator", hex: reqKeyHex, code: protocol.MPAStartup, text: "both ends are Initiators"},
		{name: "rev0", hex: repKeyHex + "c000", code: protocol.MPAStartup, text: "Rev is 0"},
		{name: "rev1 to rev2", hex: repKeyHex + "40010000", code: protocol.MPAStartup, text: "Rev of the Reply is 1"},
		{name: "S missing", hex: repKeyHex + "40020000", code: protocol.MPAStartup, text: "flag S"},
		{
			name: "closed before a Reply", fin: true, code: protocol.MPAConnectionLost,
			text: "the peer ended the connection before its Reply",
		},
		{
			name: "reset before a Reply", reset: true, code: protocol.MPAConnectionLost,
			text: "the peer ended the connection before its Reply",
		},
		{
			name: "closed within the Reply", hex: "4d", fin: true, code: protocol.MPAStartup,
			text: "in the middle of its Reply, after 1 octets",
		},
		{name: "no RTR", hex: repKeyHex + "50020004c0010001", code: protocol.MPANoMatchingRTR, text: "RTR", conn: true},
		{
			name: "IRD", hex: repKeyHex + "500200048001c002", code: protocol.MPAInsufficientIRD, text: "ORD is 2",
			conn: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := memPipe()
				ch := initiate(t.Context(), a, &Options{RTR: rtrW | rtrR, IRD: 1, ORD: 1})
				synctest.Wait()
				_, _ = b.Write(unhex(t, tt.hex))
				if tt.fin {
					_ = b.CloseWrite()
				}
				if tt.reset {
					_ = b.Abort()
				}
				r := <-ch
				if e := wantCode(t, r.err, tt.code); !strings.Contains(e.Detail, tt.text) {
					t.Errorf("%v, want %q in it", r.err, tt.text)
				}
				if tt.reset && !errors.Is(r.err, syscall.ECONNRESET) {
					t.Errorf("%v, want the reset in it", r.err)
				}
				wantClosed(t, a, !tt.conn)
				if (r.c != nil) != tt.conn {
					t.Fatalf("Conn is %v", r.c)
				}
				if !tt.conn {
					return
				}
				// A Terminate can go out, under what was agreed on.
				term := goldenFrames[len(goldenFrames)-2]
				if err := r.c.Queue(unhex(t, term.ulpdus[0]), nil, false); err != nil {
					t.Fatal(err)
				}
				if _, err := r.c.Flush(true); err != nil || !bytes.HasSuffix(b.waiting(), unhex(t, term.hex)) {
					t.Errorf("%v, the peer has %x", err, b.waiting())
				}
			})
		})
	}
}

// TCP stays open after a refusal, and what follows the Reply is still there.
//
// Shows: MPA-7.1.2-06, MPA-7.1.2-07, MPA-7.1.2-12, MPA-7.1.2-16, MPA-7.1.2-17, MPA-7.1.4.2-01, MPA-7.1.4.2-02
func TestRejectKeepsTCP(t *testing.T) {
	for _, size := range []int{0, 9, 512} {
		synctest.Test(t, func(t *testing.T) {
			a, b := memPipe()
			ch := initiate(t.Context(), a, &Options{Revision: 1})
			in, err := ReadRequest(t.Context(), b, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Reject(t.Context(), nil, pattern(513, 0)); err == nil {
				t.Error("513 octets of Private Data went through")
			}
			if err := in.Reject(t.Context(), nil, pattern(size, 0)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(b, "plain text goes on")
			r := <-ch
			var rej *RejectError
			if !errors.As(r.err, &rej) || r.c != nil || !bytes.Equal(rej.PrivateData, pattern(size, 0)) {
				t.Fatalf("%v, %v", r.c, r.err)
			}
			wantClosed(t, a, false)
			wantClosed(t, b, false)
			if got := a.waiting(); string(got) != "plain text goes on" {
				t.Errorf("left to read: %q", got)
			}
			_, _ = io.WriteString(a, "both ways")
			if got := b.waiting(); string(got) != "both ways" {
				t.Errorf("left to read: %q", got)
			}
		})
	}
}

// A peer that sends an octet a second does not win time, in either role, and a
// silent one is given up too (two Responders wait for each other).
//
// Shows: MPA-7.1.2-20, MPA-7.1.2-25
func TestWholeExchangeTimeout(t *testing.T) {
	frames := map[string]string{"Request": reqKeyHex + "40010000", "Reply": repKeyHex + "40010000"}
	for role, frame := range frames {
		for _, octets := range []int{0, 5, 19} {
			for _, noDeadline := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d octets, conn without deadlines %t", role, octets, noDeadline),
					func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
							defer cancel()
							a, b := memPipe()
							b.noDeadline = noDeadline
							var wg sync.WaitGroup
							defer wg.Wait()
							wg.Go(func() {
								for _, x := range unhex(t, frame)[:octets] {
									time.Sleep(time.Second)
									if _, err := a.Write([]byte{x}); err != nil {
										return
									}
								}
							})
							start := time.Now()
							var err error
							if role == "Request" {
								_, err = ReadRequest(ctx, b, nil)
							} else {
								_, err = Initiate(ctx, b, &Options{Revision: 1})
							}
							wantCode(t, err, protocol.MPAStartup)
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Errorf("%v, want context.DeadlineExceeded in it", err)
							}
							if d := time.Since(start); d != 10*time.Second {
								t.Errorf("it took %v", d)
							}
							wantClosed(t, b, true)
						})
					})
			}
		}
	}
}

// Shows: MPA-7.1.2-25
func TestCancelUnblocks(t *testing.T) {
	cause := errors.New("changed my mind")
	synctest.Test(t, func(t *testing.T) {
		// Blocked in Read.
		_, b := memPipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		ch := readRequest(ctx, b)
		synctest.Wait()
		cancel(cause)
		r := <-ch
		if wantCode(t, r.err, protocol.MPAStartup); !errors.Is(r.err, cause) {
			t.Errorf("%v, want the cause in it", r.err)
		}
		// Blocked in Write.
		a, _ := memPipe()
		a.window = 5
		ctx, cancel = context.WithCancelCause(t.Context())
		ch2 := initiate(ctx, a, nil)
		synctest.Wait()
		cancel(cause)
		if r := <-ch2; !errors.Is(r.err, cause) {
			t.Errorf("%v, want the cause in it", r.err)
		}
		wantClosed(t, a, true)
		// Ended before it begins.
		a, b = memPipe()
		if _, err := Initiate(ctx, a, nil); !errors.Is(err, cause) || len(b.waiting()) > 0 {
			t.Errorf("%v, %x was sent", err, b.waiting())
		}
		// In Accept.
		a, b = memPipe()
		_, _ = a.Write(unhex(t, reqKeyHex+"40010000"))
		in, err := ReadRequest(t.Context(), b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Accept(ctx, nil); !errors.Is(err, cause) {
			t.Errorf("%v, want the cause in it", err)
		}
		wantClosed(t, b, true)
	})
}

// Shows: MPA-7.1.2-25
func TestDeadlineIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a, b := memPipe()
		ch := initiate(ctx, a, nil)
		in, err := ReadRequest(ctx, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		rc, err := in.Accept(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		ic := (<-ch).c
		time.Sleep(time.Hour) // ctx ends long before
		if err := ic.Queue([]byte("late"), nil, false); err != nil {
			t.Fatal(err)
		}
		if _, err := ic.Flush(true); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := rc.Receive(func(uint64, []byte) error { return nil }); err != nil {
			t.Errorf("read: %v", err)
		}
	})
}

// MPA can start in the middle of a connection, also where part of the Request
// was read ahead.
//
// Shows: MPA-7.1-04, MPA-7.1.5-01
func TestDelayedStartup(t *testing.T) {
	req := unhex(t, reqKeyHex+"40010003616263")
	for i := range len(req) + 1 {
		a, b := memPipe()
		_, _ = a.Write(req[i:])
		in, err := ReadRequest(t.Context(), b, &RequestOptions{Buffered: req[:i]})
		if err != nil || string(in.PrivateData()) != "abc" {
			t.Fatalf("%d octets read ahead: %v", i, err)
		}
	}
	_, b := memPipe()
	_, err := ReadRequest(t.Context(), b, &RequestOptions{Buffered: append(req, 0)})
	wantCode(t, err, protocol.MPAStartup)
	wantClosed(t, b, true)
	_, b = memPipe()
	_, err = ReadRequest(t.Context(), b, &RequestOptions{Buffered: make([]byte, 5000)})
	wantCode(t, err, protocol.MPAStartup)
}

func TestInitiateRefusesOptions(t *testing.T) {
	a, b := memPipe()
	if _, err := Initiate(t.Context(), a, &Options{IRD: -7}); err == nil {
		t.Error("IRD -7 went through")
	}
	wantClosed(t, a, false)
	if len(b.waiting()) != 0 {
		t.Error("something was sent")
	}
	_, _ = a.Write(unhex(t, reqKeyHex+"40010000"))
	in, err := ReadRequest(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Accept(t.Context(), &Options{ORD: -7}); err == nil {
		t.Error("ORD -7 went through")
	}
	if _, err := in.Accept(t.Context(), nil); err != nil {
		t.Errorf("Accept after a mistake: %v", err)
	}
	if in.Close() != nil {
		t.Error("Close")
	}
}

// stuckConn breaks the rules of io.Reader and io.Writer.
type stuckConn struct{ *memConn }

func (stuckConn) Read([]byte) (int, error)  { return 0, nil }
func (stuckConn) Write([]byte) (int, error) { return 0, nil }

type boastingConn struct{ *memConn }

func (boastingConn) Write(b []byte) (int, error) { return len(b) + 1, nil }

func TestConnsThatBreakTheRules(t *testing.T) {
	a, _ := memPipe()
	if _, err := Initiate(t.Context(), stuckConn{a}, nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("stuck writer: %v", err)
	}
	a, _ = memPipe()
	if _, err := ReadRequest(t.Context(), stuckConn{a}, nil); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("stuck reader: %v", err)
	}
	a, _ = memPipe()
	if _, err := Initiate(t.Context(), boastingConn{a}, nil); err == nil {
		t.Error("a Write of more than everything went through")
	}
}
