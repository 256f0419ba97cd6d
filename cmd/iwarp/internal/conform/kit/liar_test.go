package kit_test

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// liar makes a bad endpoint of a good one: it stands between the kit and the
// target and changes what either says.
type liar struct {
	reply func(reply []byte) []byte     // the target's Reply
	in    func(segment []byte) [][]byte // a segment of the target; nothing drops it
	frame func(fpdu []byte) []byte      // an FPDU of the target
	out   func(segment []byte) []byte   // a segment of the kit; the CRC is made anew
	req   func(request []byte) []byte   // the kit's Request
}

// liarConn is one connection through a liar. Full Operation must be without
// Markers.
type liarConn struct {
	net.Conn
	l        *liar
	raw, got []byte // from the target: as it came, and changed
	startup  bool   // over
	wrote    bool   // the Request went through
}

func (c *liarConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

func (c *liarConn) SetLinger(sec int) error { return c.Conn.(*net.TCPConn).SetLinger(sec) }

func (c *liarConn) Write(b []byte) (int, error) {
	n := len(b)
	switch {
	case !c.wrote:
		c.wrote = true
		if c.l.req != nil {
			b = c.l.req(slices.Clone(b))
		}
	case c.l.out != nil:
		b = c.rewrite(b)
	}
	if _, err := c.Conn.Write(b); err != nil {
		return 0, err
	}
	return n, nil
}

// rewrite changes the FPDUs of a Write of the kit's, which are whole.
func (c *liarConn) rewrite(b []byte) []byte {
	var out []byte
	for len(b) >= 8 {
		size := int(binary.BigEndian.Uint16(b))
		n := (2+size+3)&^3 + 4
		if n > len(b) {
			break
		}
		out = append(out, iwarptest.FPDU(c.l.out(slices.Clone(b[2:2+size])))...)
		b = b[n:]
	}
	return append(out, b...)
}

func (c *liarConn) Read(b []byte) (int, error) {
	for len(c.got) == 0 {
		var buf [4096]byte
		n, err := c.Conn.Read(buf[:])
		c.raw = append(c.raw, buf[:n]...)
		c.change()
		if err != nil && len(c.got) == 0 {
			return 0, err
		}
	}
	n := copy(b, c.got)
	c.got = c.got[n:]
	return n, nil
}

// change moves what is whole from raw to got.
func (c *liarConn) change() {
	if !c.startup {
		if len(c.raw) < 20 || len(c.raw) < 20+int(binary.BigEndian.Uint16(c.raw[18:])) {
			return
		}
		n := 20 + int(binary.BigEndian.Uint16(c.raw[18:]))
		reply := slices.Clone(c.raw[:n])
		if c.l.reply != nil {
			reply = c.l.reply(reply)
		}
		c.got, c.raw, c.startup = append(c.got, reply...), c.raw[n:], true
	}
	for {
		seg, n, err := new(iwarptest.Framer).Unframe(c.raw)
		if err != nil || n == 0 {
			return
		}
		c.raw = c.raw[n:]
		segs := [][]byte{seg}
		if c.l.in != nil {
			segs = c.l.in(seg)
		}
		for _, s := range segs {
			f := iwarptest.FPDU(s)
			if c.l.frame != nil {
				f = c.l.frame(f)
			}
			c.got = append(c.got, f...)
		}
	}
}

func isTerminate(seg []byte) bool { return seg[0]&0x80 == 0 && seg[1]&0xf == 7 }

// onTerminate changes Terminates only.
func onTerminate(f func(seg []byte) [][]byte) func([]byte) [][]byte {
	return func(seg []byte) [][]byte {
		if isTerminate(seg) {
			return f(seg)
		}
		return [][]byte{seg}
	}
}

func each(f func(seg []byte)) func([]byte) [][]byte {
	return func(seg []byte) [][]byte { f(seg); return [][]byte{seg} }
}

func code(to uint16) func([]byte) [][]byte {
	return onTerminate(each(func(seg []byte) { binary.BigEndian.PutUint16(seg[18:], to) }))
}

// liars are broken endpoints, and a case that must fail for each.
var liars = []struct {
	name string
	liar liar
	id   string
}{
	// Startup.
	{
		name: "key not checked", liar: liar{req: func(b []byte) []byte { copy(b, "MPA ID Req Frame"); return b }},
		id: "request/key-octet-03",
	},
	// a control: see below
	{
		name: "revision not checked", liar: liar{req: func(b []byte) []byte { b[17] = 2; return b }},
		id: "version/first-ddp-0-write",
	},
	{
		name: "Reply with the wrong key", liar: liar{reply: func(b []byte) []byte { b[4] ^= 1; return b }},
		id: "options/rev-1-M0-C1",
	},
	{
		name: "Reply with Res set", liar: liar{reply: func(b []byte) []byte { b[16] |= 1; return b }},
		id: "options/rev-1-M0-C1",
	},
	{
		name: "Reply with a higher revision", liar: liar{reply: func(b []byte) []byte { b[17]++; return b }},
		id: "options/rev-1-M0-C1",
	},
	{
		name: "Reply without A", liar: liar{reply: func(b []byte) []byte { b[20] &^= 0x80; return b }},
		id: "rtr/offer-write-use-write",
	},
	{
		name: "Reply without an RTR",
		liar: liar{reply: func(b []byte) []byte { b[22] &^= 0xc0; b[20] &^= 0x40; return b }},
		id:   "rtr/offer-write-use-write",
	},
	{
		name: "Reply with ORD above IRD",
		liar: liar{reply: func(b []byte) []byte { b[22] |= 0x3f; b[23] = 0xfe; return b }}, id: "depth/ird-2-ord-2",
	},
	{
		name: "IRD not left open", liar: liar{reply: func(b []byte) []byte { b[20] &= 0xc0; b[21] = 7; return b }},
		id: "depth/ird-1-ord-16383",
	},
	{
		name: "RTR flags without A", liar: liar{reply: func(b []byte) []byte { b[22] |= 0x40; return b }},
		id: "rtr/without-A-read",
	},
	{
		name: "Private Data cut", liar: liar{reply: func(b []byte) []byte { b = b[:len(b)-1]; b[19]--; return b }},
		id: "private/request-rev-1-008",
	},
	{
		name: "Private Data to the ULP changed", liar: liar{req: func(b []byte) []byte { b[len(b)-1] ^= 1; return b }},
		id: "private/request-rev-1-008",
	},
	// Framing.
	{name: "CRC wrong", liar: liar{frame: func(f []byte) []byte { f[len(f)-1] ^= 1; return f }}, id: "read/empty"},
	{name: "PAD not zero", liar: liar{frame: func(f []byte) []byte {
		if size := int(binary.BigEndian.Uint16(f)); size%4 != 2 {
			f[2+size] = 1
		}
		return iwarptest.FixCRC(f)
	}}, id: "sender/send-2"},
	{name: "CRC not checked", liar: liar{out: func(s []byte) []byte { return s }}, id: "crc/write-crc-0"},
	// Headers sent.
	{name: "DDP version 0", liar: liar{in: each(func(s []byte) { s[0] &^= 3 })}, id: "read/empty"},
	{name: "Rsvd of DDP set", liar: liar{in: each(func(s []byte) { s[0] |= 4 })}, id: "read/empty"},
	{name: "RDMAP version 0", liar: liar{in: each(func(s []byte) { s[1] &^= 0xc0 })}, id: "read/empty"},
	{name: "Rsv of RDMAP set", liar: liar{in: each(func(s []byte) { s[1] |= 0x10 })}, id: "read/empty"},
	{name: "sink STag changed", liar: liar{in: each(func(s []byte) {
		if s[1]&0xf == 2 {
			s[5] ^= 1
		}
	})}, id: "read/size-3"},
	{name: "sink TO changed", liar: liar{in: each(func(s []byte) {
		if s[1]&0xf == 2 {
			s[13] ^= 1
		}
	})}, id: "read/size-3"},
	{name: "Response short", liar: liar{in: func(s []byte) [][]byte {
		if s[1]&0xf == 2 && len(s) > 14 {
			s = s[:len(s)-1]
		}
		return [][]byte{s}
	}}, id: "read/size-3"},
	{name: "data changed", liar: liar{in: each(func(s []byte) {
		if s[1]&0xf == 2 && len(s) > 14 {
			s[14] ^= 1
		}
	})}, id: "read/size-3"},
	{name: "L missing", liar: liar{in: each(func(s []byte) { s[0] &^= 0x40 })}, id: "read/empty"},
	{name: "MSN from 0", liar: liar{in: each(func(s []byte) {
		if s[0]&0x80 == 0 {
			binary.BigEndian.PutUint32(s[10:], binary.BigEndian.Uint32(s[10:])-1)
		}
	})}, id: "send/empty"},
	{name: "MO from 1", liar: liar{in: each(func(s []byte) {
		if s[0]&0x80 == 0 {
			s[17]++
		}
	})}, id: "send/empty"},
	{name: "queue 1 for Sends", liar: liar{in: each(func(s []byte) {
		if s[0]&0x80 == 0 {
			s[9] = 1
		}
	})}, id: "send/empty"},
	{name: "Invalidate STag set", liar: liar{in: each(func(s []byte) {
		if s[0]&0x80 == 0 {
			s[5] = 1
		}
	})}, id: "send/empty"},
	{name: "message sent twice", liar: liar{in: func(s []byte) [][]byte { return [][]byte{s, s} }}, id: "send/empty"},
	{name: "solicited event lost", liar: liar{out: func(s []byte) []byte {
		if s[1]&0xf == 5 {
			s[1] = s[1]&^0xf | 3
		}
		return s
	}}, id: "send/solicited"},
	{name: "segments joined wrongly", liar: liar{out: func(s []byte) []byte {
		if s[1]&0xf == 3 && len(s) > 19 {
			s[19] ^= 1
		}
		return s
	}}, id: "order/segments-of-100"},
	// Checks of a receiver left out.
	{
		name: "DDP version not checked", liar: liar{out: func(s []byte) []byte { s[0] |= 1; s[0] &^= 2; return s }},
		id: "version/ddp-0-write",
	},
	{
		name: "RDMAP version not checked", liar: liar{out: func(s []byte) []byte { s[1] = s[1]&0x3f | 0x40; return s }},
		id: "version/rdmap-2-write",
	},
	{name: "opcode not checked", liar: liar{out: func(s []byte) []byte {
		if s[0]&0x80 != 0 {
			s[1] &^= 0xd
		}
		return s
	}}, id: "opcode/13-untagged"}, // a control: see below
	{name: "QN not checked", liar: liar{out: func(s []byte) []byte {
		if s[0]&0x80 == 0 && s[1]&0xf == 3 {
			binary.BigEndian.PutUint32(s[6:], 0)
		}
		return s
	}}, id: "queue/qn-4-0"},
	{name: "Write of nothing checked", liar: liar{out: func(s []byte) []byte {
		if s[0]&0x80 != 0 && len(s) == 14 && binary.BigEndian.Uint32(s[2:]) != 0 {
			return append(s, 1)
		}
		return s
	}}, id: "access/empty-write-stag-all-ones"},
	{name: "Read of nothing checked", liar: liar{out: func(s []byte) []byte {
		if s[1]&0xf == 1 && binary.BigEndian.Uint32(s[34:]) != 0 {
			s[33] = 1
		}
		return s
	}}, id: "access/empty-read-stag-all-ones"},
	{name: "reserved bits checked", liar: liar{out: func(s []byte) []byte {
		if s[0]&0x3c != 0 {
			s[0] |= 3
		}
		return s
	}}, id: "version/ddp-reserved-04-write"},
	// Terminates.
	{name: "no Terminate", liar: liar{in: onTerminate(func([]byte) [][]byte { return nil })}, id: "queue/qn-4-0"},
	{name: "code 1/2/05 for all", liar: liar{in: code(0x1205)}, id: "access/write-stag-0"},
	{name: "code 1/1/01 for all", liar: liar{in: code(0x1101)}, id: "access/write-stag-0"},
	{name: "code 0/1/00 for all", liar: liar{in: code(0x0100)}, id: "access/read-across-end"},
	{name: "code 0/2/06 for all", liar: liar{in: code(0x0206)}, id: "queue/msn-send-zero"},
	{
		name: "Terminate twice", liar: liar{in: onTerminate(func(s []byte) [][]byte { return [][]byte{s, s} })},
		id: "queue/qn-4-0",
	},
	{name: "Terminate on queue 0", liar: liar{in: onTerminate(each(func(s []byte) { s[9] = 0 }))}, id: "queue/qn-4-0"},
	{name: "Terminate with MSN 2", liar: liar{in: onTerminate(each(func(s []byte) { s[13] = 2 }))}, id: "queue/qn-4-0"},
	{
		name: "Terminate of three octets",
		liar: liar{in: onTerminate(func(s []byte) [][]byte { return [][]byte{s[:21]} })}, id: "queue/qn-4-0",
	},
	{
		name: "Terminate with the wrong length", liar: liar{in: onTerminate(each(func(s []byte) { s[23]++ }))},
		id: "terminate/echo-write",
	},
	{
		name: "Terminate with the wrong header", liar: liar{in: onTerminate(each(func(s []byte) { s[len(s)-1] ^= 1 }))},
		id: "terminate/echo-write",
	},
	{
		name: "Terminate without header",
		liar: liar{in: onTerminate(func(s []byte) [][]byte { s[20], s[21] = 0, 0; return [][]byte{s[:22]} })},
		id:   "terminate/echo-write",
	},
	{
		name: "Terminate without the Read Request",
		liar: liar{in: onTerminate(func(s []byte) [][]byte { s[20] &^= 0x20; return [][]byte{s[:42]} })},
		id:   "terminate/echo-read-request",
	},
	{
		name: "Terminate with reserved bits", liar: liar{in: onTerminate(each(func(s []byte) { s[21] = 1 }))},
		id: "terminate/echo-write",
	},
	{name: "answers a Terminate", liar: liar{out: func(s []byte) []byte {
		if isTerminate(s) {
			return iwarptest.Write(1, 0, []byte{1})
		}
		return s
	}}, id: "terminate/code-1-2-03"},
}

// controls are liars that change nothing that their case is about: the case must
// pass, which shows that it is not the liar as such that fails.
var controls = []string{"revision not checked", "opcode not checked"}

// The kit fails each broken endpoint.
func TestBrokenEndpoints(t *testing.T) {
	cfg := config(nil)
	addr := serveTarget(t, cfg)
	for _, x := range liars {
		t.Run(x.name, func(t *testing.T) {
			// The first connections are good, so that the run begins.
			n := 0
			connect := func(ctx context.Context) (net.Conn, error) {
				nc, err := kit.Dial("tcp", addr)(ctx)
				if n++; err != nil || n == 1 {
					return nc, err
				}
				return &liarConn{Conn: nc, l: &x.liar}, nil
			}
			opts := &kit.Options{
				ULP: kit.Target, Run: "^" + x.id + "$", Timeout: time.Second, Patience: time.Second, Parallel: 1,
			}
			r, err := kit.Run(t.Context(), connect, opts)
			if err != nil || len(r.Results) != 1 {
				t.Fatalf("%v, %+v", err, r)
			}
			want := kit.Fail
			if slices.Contains(controls, x.name) {
				want = kit.Pass
			}
			if got := r.Results[0]; got.Status != want {
				t.Errorf("%s: %v (%s), want %v\n%v", x.id, got.Status, got.Reason, want, got.Log)
			} else {
				t.Logf("%s: %s", x.id, got.Reason)
			}
		})
	}
}
