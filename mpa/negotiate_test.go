package mpa

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

const (
	rtrS, rtrW, rtrR = protocol.RTRSend, protocol.RTRWrite, protocol.RTRRead
	none             = protocol.NotNegotiated
)

// negotiate runs the three pure functions as two ends would, over the wire form.
func negotiate(t *testing.T, ini, res *Options) (Startup, Startup, Params, Params, error) {
	t.Helper()
	req, err := NewRequest(ini)
	if err != nil {
		t.Fatal(err)
	}
	req = overWire(t, req)
	reply, rp, err := Answer(&req, res)
	if err != nil {
		t.Fatal(err)
	}
	reply = overWire(t, reply)
	ip, err := Conclude(&req, &reply, ini)
	return req, reply, ip, rp, err
}

func overWire(t *testing.T, s Startup) Startup {
	t.Helper()
	b, err := s.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := ParseStartup(b, s.Kind)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Shows: MPA-4.4-02, MPA-4.4-03, MPA-4.3-02, MPA2-9.2-01, MPA2-9.2-02, MPA2-10-03, MPA-7.1.1-14, MPA2-5-01
func TestNewRequest(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    *Options
		hex  string
	}{
		{name: "default", hex: reqKeyHex + "40010000"},
		{
			name: "nothing to negotiate is revision 1", o: &Options{Revision: 2, IRD: none, ORD: none},
			hex: reqKeyHex + "40010000",
		},
		{
			name: "no RTR, depths only: A=0 S=1", o: &Options{Revision: 2, IRD: 16, ORD: 8},
			hex: reqKeyHex + "5002000400100008",
		},
		{name: "one depth open", o: &Options{IRD: none, ORD: 8}, hex: reqKeyHex + "500200043fff0008"},
		{
			name: "peer to peer", o: &Options{RTR: rtrS | rtrW | rtrR, IRD: 16, ORD: 8, PrivateData: []byte("x")},
			hex: reqKeyHex + "50020005c010c00878",
		},
		{name: "RTR read alone", o: &Options{RTR: rtrR, IRD: none, ORD: none}, hex: reqKeyHex + "50020004bfff7fff"},
		{
			name: "revision 1 has no RTR", o: &Options{Revision: 1, RTR: rtrW, IRD: 1, ORD: 1},
			hex: reqKeyHex + "40010000",
		},
		{name: "markers, no CRC", o: &Options{Revision: 1, Markers: true, NoCRC: true}, hex: reqKeyHex + "80010000"},
	} {
		s, err := NewRequest(tt.o)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got, err := s.AppendTo(nil)
		if want := unhex(t, tt.hex); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v, want %x", tt.name, got, err, want)
		}
	}
}

// Shows: MPA-7.1.1-20, MPA2-9-02
func TestOptionsRefused(t *testing.T) {
	req := Startup{Kind: Request, Revision: 2, Enhanced: true, PrivateData: make([]byte, 4)}
	reply := Startup{Kind: Reply, Revision: 2, Enhanced: true, PrivateData: make([]byte, 4)}
	for name, o := range map[string]*Options{
		"revision 3":        {Revision: 3},
		"IRD too large":     {IRD: 16384},
		"ORD negative":      {ORD: -1},
		"RTR unknown":       {RTR: 0x80},
		"509 octets with S": {PrivateData: make([]byte, 509)},
		"513 octets":        {Revision: 1, PrivateData: make([]byte, 513)},
	} {
		var code protocol.Code
		if _, err := NewRequest(o); err == nil {
			t.Errorf("NewRequest, %s: no error", name)
		} else if code, _ = protocol.CodeOf(err); code != 0 {
			t.Errorf("NewRequest, %s: %v, but it is not the peer's fault", name, err)
		}
		if name == "revision 3" {
			continue // a Responder's revision is the Request's
		}
		if _, _, err := Answer(&req, o); err == nil {
			t.Errorf("Answer, %s: no error", name)
		}
		if _, err := RejectReply(&req, o, o.PrivateData); err == nil {
			t.Errorf("RejectReply, %s: no error", name)
		}
		if _, err := Conclude(&req, &reply, o); err == nil && o.PrivateData == nil {
			t.Errorf("Conclude, %s: no error", name)
		}
	}
	if _, err := NewRequest(&Options{PrivateData: make([]byte, 508)}); err != nil {
		t.Errorf("508 octets with S: %v", err)
	}
	if _, err := NewRequest(&Options{Revision: 1, PrivateData: make([]byte, 512)}); err != nil {
		t.Errorf("512 octets: %v", err)
	}
}

// Shows: MPA-4.4-04, MPA-7.1.1-06, MPA-7.1.1-07, MPA-7.1.1-08, MPA-7.1.1-09
func TestFlagsTable(t *testing.T) {
	for i := range 16 {
		a := &Options{NoCRC: i&1 == 0, Markers: i&4 != 0, IRD: none, ORD: none}
		b := &Options{NoCRC: i&2 == 0, Markers: i&8 != 0, IRD: none, ORD: none}
		req, reply, ip, rp, err := negotiate(t, a, b)
		if err != nil {
			t.Fatal(err)
		}
		if crc := i&3 != 0; ip.CRC != crc || rp.CRC != crc || (req.CRC || reply.CRC) != crc {
			t.Errorf("C %t and %t: CRC %t and %t, want %t", !a.NoCRC, !b.NoCRC, ip.CRC, rp.CRC, crc)
		}
		if rp.SendMarkers != a.Markers || ip.RecvMarkers != a.Markers {
			t.Errorf("M of the Request is %t, the Responder sends %t", a.Markers, rp.SendMarkers)
		}
		if ip.SendMarkers != b.Markers || rp.RecvMarkers != b.Markers {
			t.Errorf("M of the Reply is %t, the Initiator sends %t", b.Markers, ip.SendMarkers)
		}
		if !ip.Initiator || rp.Initiator {
			t.Error("roles are mixed up")
		}
	}
}

// Shows: MPA2-9.1-01, MPA2-9.1-02, MPA2-9.1-03, MPA2-9.1-06, MPA2-9.1-08, MPA2-9.1-09, MPA2-9.1-10, MPA2-9.1-11
// Shows: MPA2-9.1-12, MPA2-9.1-13
func TestDepthTable(t *testing.T) {
	type pair struct{ ird, ord int }
	for _, tt := range []struct {
		ini, res   pair // wanted
		wire       pair // in the Reply
		iEnd, rEnd pair // in the end
	}{
		{
			ini: pair{ird: 16, ord: 8}, res: pair{ird: 32, ord: 32}, wire: pair{ird: 8, ord: 16},
			iEnd: pair{ird: 16, ord: 8}, rEnd: pair{ird: 8, ord: 16},
		},
		{
			ini: pair{ird: 16, ord: 8}, res: pair{ird: 4, ord: 2}, wire: pair{ird: 4, ord: 2},
			iEnd: pair{ird: 16, ord: 4}, rEnd: pair{ird: 4, ord: 2},
		},
		{
			ini: pair{ird: 0, ord: 0}, res: pair{ird: 4, ord: 2}, wire: pair{ird: 0, ord: 0},
			iEnd: pair{ird: 0, ord: 0}, rEnd: pair{ird: 0, ord: 0},
		},
		{
			ini: pair{ird: 0, ord: 5}, res: pair{ird: 0, ord: 5}, wire: pair{ird: 0, ord: 0},
			iEnd: pair{ird: 0, ord: 0}, rEnd: pair{ird: 0, ord: 0},
		},
		{
			ini: pair{ird: 16382, ord: 16382}, res: pair{ird: 16382, ord: 16382}, wire: pair{ird: 16382, ord: 16382},
			iEnd: pair{ird: 16382, ord: 16382}, rEnd: pair{ird: 16382, ord: 16382},
		},
		{
			ini: pair{ird: 16, ord: none}, res: pair{ird: 4, ord: 2}, wire: pair{ird: none, ord: 2},
			iEnd: pair{ird: 16, ord: none}, rEnd: pair{ird: 4, ord: 2},
		},
		{
			ini: pair{ird: none, ord: 8}, res: pair{ird: 4, ord: 2}, wire: pair{ird: 4, ord: none},
			iEnd: pair{ird: none, ord: 4}, rEnd: pair{ird: 4, ord: 2},
		},
		{
			ini: pair{ird: 16, ord: 8}, res: pair{ird: none, ord: 2}, wire: pair{ird: none, ord: 2},
			iEnd: pair{ird: 16, ord: 8}, rEnd: pair{ird: none, ord: 2},
		},
		{
			ini: pair{ird: 16, ord: 8}, res: pair{ird: 4, ord: none}, wire: pair{ird: 4, ord: none},
			iEnd: pair{ird: 16, ord: 4}, rEnd: pair{ird: 4, ord: none},
		},
		{
			ini: pair{ird: 16, ord: 8}, res: pair{none, none}, wire: pair{none, none}, iEnd: pair{ird: 16, ord: 8},
			rEnd: pair{none, none},
		},
	} {
		ini := &Options{IRD: tt.ini.ird, ORD: tt.ini.ord, PrivateData: []byte("i")}
		res := &Options{IRD: tt.res.ird, ORD: tt.res.ord, PrivateData: []byte("r")}
		_, _, ip, rp, err := negotiate(t, ini, res)
		if err != nil {
			t.Errorf("%+v: %v", tt, err)
			continue
		}
		if got := (pair{ip.PeerIRD, ip.PeerORD}); got != tt.wire {
			t.Errorf("%v and %v: the Reply says %v, want %v", tt.ini, tt.res, got, tt.wire)
		}
		if got := (pair{rp.PeerIRD, rp.PeerORD}); got != tt.ini {
			t.Errorf("%v and %v: the Responder's ULP hears %v", tt.ini, tt.res, got)
		}
		if i, r := (pair{ip.IRD, ip.ORD}), (pair{rp.IRD, rp.ORD}); i != tt.iEnd || r != tt.rEnd {
			t.Errorf("%v and %v: end up with %v and %v, want %v and %v", tt.ini, tt.res, i, r, tt.iEnd, tt.rEnd)
		}
		if string(ip.PrivateData) != "r" || string(rp.PrivateData) != "i" {
			t.Errorf("Private Data %q and %q, want the peer's", ip.PrivateData, rp.PrivateData)
		}
	}
}

// Shows: MPA2-9.1-04, MPA2-9.2-03, MPA2-9.2-04, MPA2-9.2-05, MPA2-9.2-06, MPA2-9.2-08, MPA2-9.2-09, MPA2-9.2-10
func TestRTRTable(t *testing.T) {
	for _, tt := range []struct {
		ini, res protocol.RTR
		wire     protocol.RTR
		common   protocol.RTR
		ird      uint16
	}{
		{ini: 0, res: rtrW | rtrR, wire: 0, common: 0, ird: 0},
		{ini: rtrW | rtrR, res: rtrW | rtrR, wire: rtrW | rtrR, common: rtrW | rtrR, ird: 1},
		{ini: rtrS | rtrW | rtrR, res: rtrR, wire: rtrR, common: rtrR, ird: 1},
		{ini: rtrW, res: rtrS | rtrW | rtrR, wire: rtrW, common: rtrW, ird: 0},
		// a Responder supports something always
		{ini: rtrW | rtrR, res: 0, wire: rtrW | rtrR, common: rtrW | rtrR, ird: 1},
		{ini: rtrS, res: rtrW, wire: rtrW, common: 0, ird: 0},
		{ini: rtrS, res: rtrR, wire: rtrR, common: 0, ird: 1},
	} {
		_, reply, ip, rp, err := negotiate(t, &Options{RTR: tt.ini, IRD: 4}, &Options{RTR: tt.res, IRD: 4})
		block, ok := reply.Block()
		if want := (protocol.Enhanced{PeerToPeer: tt.ini != 0, RTR: tt.wire, IRD: tt.ird}); !ok || block != want {
			t.Errorf("RTR %v and %v: Reply has %+v, want %+v", tt.ini, tt.res, block, want)
		}
		if ip.RTR != tt.common || rp.RTR != tt.common || ip.PeerToPeer != (tt.ini != 0) ||
			rp.PeerToPeer != ip.PeerToPeer {
			t.Errorf("RTR %v and %v: common %v and %v, want %v", tt.ini, tt.res, ip.RTR, rp.RTR, tt.common)
		}
		if tt.ini != 0 && tt.common == 0 {
			wantCode(t, err, protocol.MPANoMatchingRTR)
			if !ip.CRC || ip.Revision != 2 {
				t.Errorf("Params %+v are no good for a Terminate", ip)
			}
		} else if err != nil {
			t.Errorf("RTR %v and %v: %v", tt.ini, tt.res, err)
		}
	}
}

func enhancedReply(t *testing.T, e protocol.Enhanced) Startup {
	t.Helper()
	s := Startup{Kind: Reply, Revision: 2, CRC: true}
	if err := s.setData(&e, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// Shows: MPA2-9.1-07, MPA2-9.2-07, MPA2-9.2-09, MPA2-8-01, MPA2-12-01
func TestConcludeUnusual(t *testing.T) {
	o := &Options{RTR: rtrW | rtrR, IRD: 4, ORD: 4}
	req, err := NewRequest(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		block protocol.Enhanced
		code  protocol.Code
		rtr   protocol.RTR
	}{
		{
			name:  "kinds that were not asked for are ignored",
			block: protocol.Enhanced{PeerToPeer: true, RTR: rtrS | rtrW, IRD: 4, ORD: 4}, code: 0, rtr: rtrW,
		},
		{name: "A not copied", block: protocol.Enhanced{IRD: 4, ORD: 4}, code: protocol.MPANoMatchingRTR, rtr: 0},
		{
			name: "no kind at all", block: protocol.Enhanced{PeerToPeer: true, IRD: 4, ORD: 4},
			code: protocol.MPANoMatchingRTR, rtr: 0,
		},
		{
			name: "only Read, but IRD 0", block: protocol.Enhanced{PeerToPeer: true, RTR: rtrR, ORD: 4},
			code: protocol.MPANoMatchingRTR, rtr: 0,
		},
		{
			name: "IRD 0 leaves Write", block: protocol.Enhanced{PeerToPeer: true, RTR: rtrR | rtrW, ORD: 4}, code: 0,
			rtr: rtrW,
		},
		{
			name: "ORD above our IRD", block: protocol.Enhanced{PeerToPeer: true, RTR: rtrW, IRD: 4, ORD: 5},
			code: protocol.MPAInsufficientIRD, rtr: rtrW,
		},
	} {
		reply := enhancedReply(t, tt.block)
		p, err := Conclude(&req, &reply, o)
		if code, _ := protocol.CodeOf(err); code != tt.code {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.code)
		}
		if p.RTR != tt.rtr || !p.CRC || !p.PeerToPeer || p.PeerIRD != int(tt.block.IRD) {
			t.Errorf("%s: %+v", tt.name, p)
		}
	}
	// A=1 to a client-server Request
	cs := &Options{IRD: 4, ORD: 4}
	req, _ = NewRequest(cs)
	reply := enhancedReply(t, protocol.Enhanced{PeerToPeer: true, RTR: rtrW})
	_, err = Conclude(&req, &reply, cs)
	wantCode(t, err, protocol.MPANoMatchingRTR)
}

// Shows: MPA2-6-04, MPA2-10-01, MPA2-10-02, MPA-7.1.1-15, MPA-7.1.1-16
func TestRevisions(t *testing.T) {
	for rev := range 256 {
		for _, s := range []bool{false, true} {
			req := Startup{Kind: Request, Revision: uint8(rev), Enhanced: s && rev >= 2, PrivateData: make([]byte, 4)}
			reply, p, err := Answer(&req, &Options{RTR: rtrW, IRD: 1, ORD: 1, Revision: 1})
			if rev != 1 && rev != 2 {
				wantCode(t, err, protocol.MPAStartup)
				_, err = RejectReply(&req, nil, nil)
				wantCode(t, err, protocol.MPAStartup)
				ask := Startup{Kind: Request, Revision: 1}
				rep := Startup{Kind: Reply, Revision: uint8(rev), Reject: true}
				_, err = Conclude(&ask, &rep, nil)
				wantCode(t, err, protocol.MPAStartup)
				continue
			}
			if err != nil || reply.Revision != req.Revision || reply.Enhanced != req.Enhanced ||
				p.Revision != req.Revision || p.Enhanced != req.Enhanced {
				t.Errorf("Rev %d S %t: answered %+v, %+v, %v", rev, req.Enhanced, reply, p, err)
			}
		}
	}
}

// Shows: MPA-7.1.2-10, MPA-7.1.2-11, MPA2-10-01, MPA2-10-02
func TestConcludeFormsMustMatch(t *testing.T) {
	block := protocol.Enhanced{IRD: 1, ORD: 1}
	enh := enhancedReply(t, block)
	v2 := Startup{Kind: Reply, Revision: 2}
	v1 := Startup{Kind: Reply, Revision: 1}
	broken := Startup{Kind: Reply, Revision: 2, Enhanced: true, PrivateData: []byte{1}}
	wrongKind := Startup{Kind: Request, Revision: 1}
	req1, _ := NewRequest(&Options{Revision: 1})
	req2, _ := NewRequest(&Options{IRD: 1, ORD: 1})
	for _, tt := range []struct {
		req, reply Startup
		ok         bool
	}{
		{req: req1, reply: v1, ok: true},
		{req: req2, reply: enh, ok: true},
		{req: req1, reply: enh, ok: false},
		{req: req1, reply: v2, ok: false},
		{req: req2, reply: v1, ok: false},
		{req: req2, reply: v2, ok: false},
		{req: req2, reply: broken, ok: false},
		{req: req1, reply: wrongKind, ok: false},
	} {
		_, err := Conclude(&tt.req, &tt.reply, &Options{IRD: 1, ORD: 1})
		if tt.ok && err != nil {
			t.Errorf("%+v to %+v: %v", tt.reply, tt.req, err)
		} else if !tt.ok {
			wantCode(t, err, protocol.MPAStartup)
		}
	}
	_, _, err := Answer(&v1, nil)
	wantCode(t, err, protocol.MPAStartup)
	badReq := Startup{Kind: Request, Revision: 2, Enhanced: true, PrivateData: []byte{1}}
	_, _, err = Answer(&badReq, nil)
	wantCode(t, err, protocol.MPAStartup)
}

// Shows: MPA2-9.1-05, MPA2-9.1-08, MPA-7.1.2-06, MPA-7.1.2-12, MPA-7.1.2-17, MPA-7.1.1-12
func TestReject(t *testing.T) {
	for _, rev := range []uint8{1, 2} {
		t.Run(fmt.Sprint("revision ", rev), func(t *testing.T) {
			o := &Options{Revision: rev, RTR: rtrR, IRD: 1, ORD: 1}
			req, err := NewRequest(o)
			if err != nil {
				t.Fatal(err)
			}
			reply, err := RejectReply(&req, &Options{RTR: rtrW, IRD: none, ORD: 9}, []byte("busy"))
			if err != nil || !reply.Reject || reply.Revision != rev || reply.Enhanced != (rev == 2) {
				t.Fatalf("RejectReply = %+v, %v", reply, err)
			}
			reply = overWire(t, reply)
			_, err = Conclude(&req, &reply, o)
			var rej *RejectError
			if !errors.As(err, &rej) || string(rej.PrivateData) != "busy" || rej.Error() == "" {
				t.Fatalf("Conclude: %v, want a *RejectError", err)
			}
			want := RejectError{Revision: rev, PrivateData: rej.PrivateData, PeerIRD: none, PeerORD: none}
			if rev == 2 {
				want.Enhanced, want.RTR, want.PeerORD = true, rtrW, 9
			}
			if fmt.Sprint(*rej) != fmt.Sprint(want) {
				t.Errorf("%+v, want %+v", *rej, want)
			}
		})
	}
	// A refusal counts in any form: Linux siw refuses Markers so.
	req, _ := NewRequest(&Options{IRD: 1, ORD: 1})
	plain := Startup{Kind: Reply, Revision: 1, Reject: true}
	var rej *RejectError
	if _, err := Conclude(&req, &plain, &Options{IRD: 1, ORD: 1}); !errors.As(err, &rej) {
		t.Errorf("unenhanced refusal: %v", err)
	}
}
