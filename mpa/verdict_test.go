package mpa

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp/protocol"
)

// requests are the forms that a Request of this package can have.
func requests() map[string]*Options {
	all := map[string]*Options{}
	for _, markers := range []bool{false, true} {
		for _, noCRC := range []bool{false, true} {
			flags := fmt.Sprintf(", M %t, C %t", markers, !noCRC)
			all["revision 1"+flags] = &Options{Revision: 1, Markers: markers, NoCRC: noCRC, IRD: none, ORD: none}
			all["client-server"+flags] = &Options{Markers: markers, NoCRC: noCRC, IRD: 4, ORD: 4}
			all["peer-to-peer"+flags] = &Options{Markers: markers, NoCRC: noCRC, IRD: 4, ORD: 4, RTR: rtrW | rtrR}
		}
	}
	return all
}

// R alone decides whether a Reply accepts or refuses: no other flag of it, none of
// the Request, and neither revision changes that.
//
// Shows: MPA-7.1.1-12, MPA-7.1.2-12
func TestRejectWhateverTheOtherFlags(t *testing.T) {
	for name, o := range requests() {
		for flags := range 256 {
			for _, rev := range []uint8{1, 2} {
				if flags&flagReject == 0 {
					continue
				}
				req, err := NewRequest(o)
				if err != nil {
					t.Fatal(err)
				}
				frame := append(unhex(t, repKeyHex), byte(flags), rev, 0, 6)
				reply, _, err := ParseStartup(append(frame, "\x00\x01\x00\x01no"...), Reply)
				if err != nil {
					t.Fatal(err)
				}
				_, err = Conclude(&req, &reply, o)
				var rejected *RejectError
				if !errors.As(err, &rejected) {
					t.Errorf("%s: flags 0x%02x, Rev %d: %v, want a *RejectError", name, flags, rev, err)
					continue
				}
				enhanced, data := rev == 2 && flags&flagEnhanced != 0, "\x00\x01\x00\x01no"
				if enhanced {
					data = "no"
				}
				if rejected.Revision != rev || rejected.Enhanced != enhanced || string(rejected.PrivateData) != data {
					t.Errorf("%s: flags 0x%02x, Rev %d: %+v", name, flags, rev, rejected)
				}
			}
		}
	}
}

// The other way round: a Responder that refuses sets R, and one that accepts does
// not, whatever the Request asks for and itself asks for.
//
// Shows: MPA-7.1.1-12, MPA-7.1.2-08, MPA-7.1.2-17
func TestReplySaysRWhateverTheOtherFlags(t *testing.T) {
	for name, o := range requests() {
		for answer, own := range requests() {
			req, err := NewRequest(o)
			if err != nil {
				t.Fatal(err)
			}
			accepting, _, err := Answer(&req, own)
			if err != nil || accepting.Reject {
				t.Errorf("%s, answered with %s: R %t, %v", name, answer, accepting.Reject, err)
			}
			refusing, err := RejectReply(&req, own, nil)
			if err != nil || !refusing.Reject || refusing.Revision != req.Revision {
				t.Errorf("%s, refused with %s: R %t, Rev %d, %v", name, answer, refusing.Reject, refusing.Revision, err)
			}
			if _, err := Conclude(&req, &refusing, o); !errors.As(err, new(*RejectError)) {
				t.Errorf("%s, refused with %s: %v", name, answer, err)
			}
			if _, err := Conclude(&req, &accepting, o); errors.As(err, new(*RejectError)) {
				t.Errorf("%s, accepted with %s: %v", name, answer, err)
			}
		}
	}
}

// TCP stays open after a refusal in any form, and what follows the Reply is still
// there to be read.
//
// Shows: MPA-7.1.2-12
func TestRejectInAnyFormKeepsTCP(t *testing.T) {
	for name, o := range requests() {
		for _, head := range []string{
			"20010000", "60010000", "a0010000", "e0010000", "20020000", "a0020000", "3002000400000000",
			"f002000400000000",
		} {
			synctest.Test(t, func(t *testing.T) {
				a, b := memPipe()
				ch := initiate(t.Context(), a, o)
				synctest.Wait()
				_, _ = b.Write(append(unhex(t, repKeyHex+head), "plain text"...))
				if r := <-ch; r.c != nil || !errors.As(r.err, new(*RejectError)) {
					t.Errorf("%s, refused with %s: %v", name, head, r.err)
				}
				wantClosed(t, a, false)
				if got := a.waiting(); string(got) != "plain text" {
					t.Errorf("%s, refused with %s: left to read: %q", name, head, got)
				}
			})
		}
	}
}

// Which revisions go together, in both roles: an accepting Reply has the revision
// of its Request, and S like it. A Reply of revision 0 is for a permissive
// Initiator only.
//
// Shows: MPA-7.1.1-15, MPA-7.1.2-10, MPA2-10-01, MPA2-10-02
func TestRevisionsOfRequestAndReply(t *testing.T) {
	for name, o := range requests() {
		for _, rdmac := range []RDMAC{RDMACOff, RDMACNonPermissive, RDMACPermissive} {
			o := *o
			o.RDMAC = rdmac
			req, err := NewRequest(&o)
			if err != nil {
				t.Fatal(err)
			}
			for rev := range 256 {
				for _, enhanced := range []bool{false, true} {
					reply := Startup{
						Kind: Reply, Revision: uint8(rev), CRC: true, Enhanced: enhanced && rev >= 2,
						PrivateData: []byte{0x00, 0x04, 0x80, 0x04}, // IRD and ORD 4, RTR Write
					}
					if o.RTR != 0 {
						reply.PrivateData[0] |= 0x80 // A
					}
					_, err := Conclude(&req, &reply, &o)
					good := reply.Revision == req.Revision && reply.Enhanced == req.Enhanced ||
						rev == Revision0 && rdmac == RDMACPermissive
					if good && err != nil {
						t.Errorf("%s, policy %v: Reply of Rev %d, S %t: %v", name, rdmac, rev, reply.Enhanced, err)
					}
					if code, _ := protocol.CodeOf(err); !good && code != protocol.MPAStartup {
						t.Errorf("%s, policy %v: Reply of Rev %d, S %t: %v, want 2/0/04", name, rdmac, rev,
							reply.Enhanced, err)
					}
				}
			}
		}
	}
}

// Which Requests a Responder takes, by what it supports.
//
// Shows: MPA-7.1.1-15, MPA2-6-04, MPA2-10-04
func TestRevisionsOfResponder(t *testing.T) {
	for _, unenhanced := range []bool{false, true} {
		for _, rdmac := range []RDMAC{RDMACOff, RDMACNonPermissive, RDMACPermissive} {
			for rev := range 256 {
				a, b := memPipe()
				_, _ = a.Write(append(unhex(t, reqKeyHex), 0x40, byte(rev), 0, 0))
				_, err := ReadRequest(t.Context(), b, &RequestOptions{RDMAC: rdmac, Unenhanced: unenhanced})
				good := rev == 1 || rev == 2 && !unenhanced || rev == 0 && rdmac == RDMACPermissive
				if good != (err == nil) {
					t.Errorf("unenhanced %t, policy %v: Request of Rev %d: %v", unenhanced, rdmac, rev, err)
				}
				if !good {
					wantCode(t, err, protocol.MPAStartup)
				}
				wantClosed(t, b, !good)
			}
		}
	}
}

// R in a Request has no meaning: it is not looked at, nor does it show in the
// Reply, with any other flag and in every revision.
//
// Shows: MPA-7.1.1-11, MPA-7.1.1-13
func TestRejectFlagInARequest(t *testing.T) {
	for flags := range 256 {
		for _, rev := range []byte{0, 1, 2} {
			a, b := memPipe()
			f := byte(flags) | flagReject
			_, _ = a.Write(append(unhex(t, reqKeyHex), f, rev, 0, 5, 0x00, 0x04, 0x00, 0x04, 'x'))
			in, err := ReadRequest(t.Context(), b, &RequestOptions{RDMAC: RDMACPermissive})
			if err != nil {
				t.Fatalf("Request with flags 0x%02x, Rev %d: %v", f, rev, err)
			}
			c, err := in.Accept(t.Context(), &Options{IRD: 4, ORD: 4, RDMAC: RDMACPermissive})
			if err != nil {
				t.Fatalf("Accept of flags 0x%02x, Rev %d: %v", f, rev, err)
			}
			reply, _, err := ParseStartup(a.waiting(), Reply)
			if err != nil || reply.Reject || reply.Reserved != 0 {
				t.Errorf("Reply to flags 0x%02x, Rev %d: %+v, %v", f, rev, reply, err)
			}
			if !bytes.HasSuffix(c.Params().PrivateData, []byte("x")) {
				t.Errorf("Private Data %q", c.Params().PrivateData)
			}
		}
	}
}

// And no Request of this package has it.
//
// Shows: MPA-7.1.1-11
func TestNoRequestSaysR(t *testing.T) {
	for name, o := range requests() {
		s, err := NewRequest(o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.AppendTo(nil)
		if err != nil || b[keyLen]&(flagReject|0x0f) != 0 {
			t.Errorf("%s: flags 0x%02x, %v", name, b[keyLen], err)
		}
	}
}
