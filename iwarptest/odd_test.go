package iwarptest_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// odd are inputs that nobody means: none, empty, one octet, and more than fits
// 16 bits.
func odd() [][]byte {
	return [][]byte{nil, {}, {0}, {0x80}, {0xff}, make([]byte, 65535), make([]byte, 65536), make([]byte, 70000)}
}

// Every builder takes any octets, and puts them behind its header.
func TestBuildersTakeAnything(t *testing.T) {
	for name, build := range map[string]func(b []byte) []byte{
		"Tagged": func(b []byte) []byte { return iwarptest.Tagged(0xff, false, 1, 2, b) },
		"Untagged": func(b []byte) []byte {
			return iwarptest.Untagged(iwarptest.UntaggedHeader{
				Opcode: 0xff, Last: true, Invalidate: 1, QN: 2, MSN: 3, MO: 4,
			},
				b)
		},
		"Write":                   func(b []byte) []byte { return iwarptest.Write(1, 2, b) },
		"ReadResponse":            func(b []byte) []byte { return iwarptest.ReadResponse(1, 2, b) },
		"Send":                    func(b []byte) []byte { return iwarptest.Send(1, b) },
		"SendInvalidate":          func(b []byte) []byte { return iwarptest.SendInvalidate(1, 2, b) },
		"SendSolicited":           func(b []byte) []byte { return iwarptest.SendSolicited(1, b) },
		"SendSolicitedInvalidate": func(b []byte) []byte { return iwarptest.SendSolicitedInvalidate(1, 2, b) },
		"Request":                 func(b []byte) []byte { return iwarptest.Request(0xff, 0xff, b) },
		"Reply":                   func(b []byte) []byte { return iwarptest.Reply(0xff, 0xff, b) },
		"Enhanced":                func(b []byte) []byte { return iwarptest.Enhanced(0xffff, 0xffff, b) },
	} {
		for _, b := range odd() {
			if got := build(b); !bytes.HasSuffix(got, b) {
				t.Errorf("%s of %d octets does not end with them", name, len(b))
			}
		}
	}
	for _, b := range odd() {
		_ = iwarptest.Describe(b)
		_ = iwarptest.CRC32C(b)
		if got := iwarptest.FixCRC(bytes.Clone(b)); len(got) != len(b) {
			t.Errorf("FixCRC makes %d octets of %d", len(got), len(b))
		}
		for _, f := range []iwarptest.Framer{
			{}, {Markers: true}, {NoCRC: true}, {Markers: true, Pos: 3}, {Markers: true, Pos: ^uint64(0) - 7},
		} {
			out, in := f, f
			frame := out.Frame(b)
			if len(frame)%4 != 0 {
				t.Errorf("%+v: %d octets make a frame of %d", f, len(b), len(frame))
			}
			if u, n, err := in.Unframe(frame); len(b) < 1<<16 && (err != nil || n != len(frame) || !bytes.Equal(u, b)) {
				t.Errorf("%+v: %d octets: %d of %d taken, %v", f, len(b), n, len(frame), err)
			}
		}
	}
}

// A Terminate carries what there is of the segment that it blames: every cut of one
// is told by flags that say which headers follow.
func TestTerminateForHalfASegment(t *testing.T) {
	for name, whole := range map[string][]byte{
		"Write": iwarptest.Write(1, 2, []byte("data")), "Send": iwarptest.Send(1, []byte("data")),
		"Read Request": iwarptest.ReadRequest(1, 2, 3, 4, 5, 6), "nothing": {}, "none": nil,
	} {
		for n := range len(whole) + 1 {
			for _, code := range []uint16{0x0100, 0x1203, 0x1101, 0xffff} {
				body := iwarptest.Terminate(code, whole[:n:n])[18:]
				flags, rest := body[2], body[4:]
				want := 0
				if flags&0xc0 != 0 {
					want += 2
					if got := int(binary.BigEndian.Uint16(rest)); got != n {
						t.Errorf("%s cut to %d: length %d", name, n, got)
					}
				}
				if flags&0x40 != 0 {
					want += 18
					if whole[0]&0x80 != 0 {
						want -= 4
					}
				}
				if flags&0x20 != 0 {
					want += 28
				}
				if len(rest) != want || flags == 0 && n > 0 || flags != 0 && n == 0 {
					t.Errorf("%s cut to %d, code %04x: flags %02x and %d octets behind them, %d are due", name, n, code,
						flags, len(rest), want)
				}
			}
		}
	}
}

// Frames that end anywhere say nothing about Markers and CRC, and harm nobody.
func TestPeerAgreesOnHalfAFrame(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	p := iwarptest.NewPeer(t, b)
	request, reply := iwarptest.Request(iwarptest.FlagM|iwarptest.FlagC, 1, nil),
		iwarptest.Reply(iwarptest.FlagM|iwarptest.FlagC,
			1, nil)
	for n := range len(request) + 1 {
		for _, initiator := range []bool{false, true} {
			p.Agree(request[:n], reply[:n], initiator)
			if whole := n > 16; p.In.Markers != whole || p.Out.Markers != whole || p.In.NoCRC == whole {
				t.Errorf("frames of %d octets: %+v, %+v", n, p.In, p.Out)
			}
		}
	}
}

func FuzzBuilders(f *testing.F) {
	f.Add(uint16(0x0100), iwarptest.ReadRequest(1, 2, 3, 4, 5, 6), uint64(0), true)
	f.Add(uint16(0x1203), iwarptest.Write(1, 2, []byte("x")), uint64(508), false)
	f.Add(uint16(0), []byte{}, uint64(1), true)
	f.Fuzz(func(t *testing.T, code uint16, b []byte, pos uint64, markers bool) {
		segment := iwarptest.Terminate(code, b)
		if len(segment) < 22 || binary.BigEndian.Uint16(segment[18:]) != code {
			t.Fatalf("Terminate %04x of %x is %x", code, b, segment)
		}
		_ = iwarptest.Describe(b)
		_ = iwarptest.FixCRC(bytes.Clone(b))
		out := iwarptest.Framer{Markers: markers, Pos: pos}
		in := out
		for _, u := range [][]byte{b, segment} {
			if got, n, err := in.Unframe(out.Frame(u)); len(u) < 1<<16 &&
				(err != nil || n == 0 || !bytes.Equal(got, u)) {
				t.Fatalf("%x comes back as %x, %v", u, got, err)
			}
		}
		for range iwarptest.EverySplit(b[:min(len(b), 6)], int(int8(code))) {
		}
	})
}
