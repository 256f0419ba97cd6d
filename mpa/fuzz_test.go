package mpa

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

// Shows: MPA-7.1.2-21, MPA2-12-01
func FuzzParseStartup(f *testing.F) {
	for _, tt := range startupTable {
		f.Add(unhex(f, tt.hex), tt.frame.Kind == Request)
	}
	f.Add(unhex(f, reqKeyHex+"50020003616263"), true)
	f.Add(unhex(f, reqKeyHex+"40010201"), true)
	f.Fuzz(func(t *testing.T, b []byte, request bool) {
		kind := Reply
		if request {
			kind = Request
		}
		s, n, err := ParseStartup(b, kind)
		if err != nil {
			if code, ok := protocol.CodeOf(err); !errors.Is(err, io.ErrUnexpectedEOF) &&
				(!ok || code != protocol.MPAStartup) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		out, err := s.AppendTo(nil)
		if err != nil || n != s.Len() || !bytes.Equal(out, b[:n]) {
			t.Fatalf("%x gives %+v gives %x, %v", b[:n], s, out, err)
		}
		// Whatever a peer says, the answers are frames that hold together.
		o := &Options{RTR: protocol.RTRRead, IRD: 3, ORD: 5}
		if request {
			fuzzAnswer(t, &s, o)
			return
		}
		req, _ := NewRequest(o)
		if p, err := Conclude(&req, &s, o); err == nil && (p.ORD > 5 || p.RTR&^protocol.RTRRead != 0) {
			t.Fatalf("%+v leads to %+v", s, p)
		}
	})
}

func fuzzAnswer(t *testing.T, req *Startup, o *Options) {
	reply, p, err := Answer(req, o)
	if err != nil {
		return
	}
	e, ok := req.Block()
	if ok && p.PeerIRD != protocol.NotNegotiated && p.ORD > int(e.IRD) {
		t.Fatalf("ORD %d above the peer's IRD %d", p.ORD, e.IRD)
	}
	wire, err := reply.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := ParseStartup(wire, Reply)
	if err != nil || !reflect.DeepEqual(back, reply) && len(reply.PrivateData) > 0 {
		t.Fatalf("%+v comes back as %+v, %v", reply, back, err)
	}
	if _, err := Conclude(req, &back, &Options{IRD: protocol.NotNegotiated, ORD: protocol.NotNegotiated}); err != nil {
		if code, _ := protocol.CodeOf(err); code != protocol.MPANoMatchingRTR {
			t.Fatalf("%+v to %+v: %v", back, req, err)
		}
	}
}

// A Deframer gives the same whatever the chunks, asks for what it needs, and
// never panics.
//
// Shows: MPA-5.1-05, MPA-A.4-01
func FuzzDeframer(f *testing.F) {
	for _, v := range append(goldenFrames, toleratedFrames...) {
		f.Add(unhex(f, v.hex), v.markers, !v.noCRC, uint16(v.pos), uint16(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, markers, crc bool, pos, chunk uint16) {
		mk := func() *Deframer {
			d := &Deframer{Markers: markers, CRC: crc, Strict: pos&1 != 0, IgnoreMarkers: pos&2 != 0}
			d.SetPosition(uint64(pos &^ 3))
			return d
		}
		one, rest, err := feed(mk(), b, max(len(b), 1))
		d := mk()
		many, restMany, errMany := feed(d, b, int(chunk%2000)+1)
		if len(one) != len(many) || (err == nil) != (errMany == nil) || (err == nil && rest != restMany) {
			t.Fatalf("in one: %d ULPDUs, %v; in %d: %d, %v", len(one), err, chunk, len(many), errMany)
		}
		for i := range one {
			if !bytes.Equal(one[i], many[i]) {
				t.Fatalf("ULPDU %d differs", i)
			}
		}
		if err != nil {
			if err.Code != protocol.MPACRC && err.Code != protocol.MPAMarker || *err != *errMany {
				t.Fatalf("%v and %v", err, errMany)
			}
		}
	})
}

// What a Framer makes, a Deframer undoes, and both agree with the reference that
// goes octet by octet.
//
// Shows: MPA-3-01, MPA-4.1-05, MPA-4.3-04
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint16(5), uint8(3), true, true, uint32(0), uint16(9))
	f.Add(uint16(20000), uint8(1), true, false, uint32(127), uint16(4000))
	f.Add(uint16(MaxULPDU), uint8(3), false, true, uint32(1<<30-1), uint16(5120))
	f.Fuzz(func(t *testing.T, size uint16, count uint8, markers, stable bool, word uint32, step uint16) {
		if size == 0 || size > MaxULPDU {
			return
		}
		step = max(step, size/64) // a ULPDU in too many steps takes long and shows nothing more
		u := pattern(int(size), int(count))
		pos := uint64(word) * 4
		fr := newSender(markers, true, int(step), Align(step%4))
		fr.framer.pos = pos
		var want []byte
		n := int(count)%4 + 1
		for i := range n {
			cut := (len(u) * i) / n
			if err := fr.add(u[:cut], [][]byte{u[cut:]}, stable); err != nil {
				t.Fatal(err)
			}
			want = append(want, refFrame(pos+uint64(len(want)), u, markers)...)
		}
		got, _ := drain(fr, int(step)+1)
		if !bytes.Equal(got, want) {
			t.Fatalf("%x\nwant %x", got, want)
		}
		d := Deframer{Markers: markers, CRC: true, Strict: true}
		d.SetPosition(pos)
		back, rest, err := feed(&d, got, int(step)+1)
		if err != nil || rest != 0 || len(back) != n {
			t.Fatalf("%d of %d ULPDUs, %v", len(back), n, err)
		}
		for _, b := range back {
			if !bytes.Equal(b, u) {
				t.Fatal("the ULPDU was changed")
			}
		}
	})
}
