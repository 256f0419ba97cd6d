package mpa

import (
	"errors"
	"io"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

var rdmacRequest = unhexString(reqKeyHex + "c0000000")

func unhexString(s string) []byte {
	b := make([]byte, len(s)/2)
	for i := range b {
		b[i] = hexDigit(s[2*i])<<4 | hexDigit(s[2*i+1])
	}
	return b
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// Shows: MPA-C.2.3-01, MPA-C.1-01
func TestPermissiveResponder(t *testing.T) {
	for _, markers := range []bool{false, true} { // whatever this end prefers
		a, b := memPipe()
		_, _ = a.Write(rdmacRequest)
		in, err := ReadRequest(t.Context(), b, &RequestOptions{RDMAC: RDMACPermissive})
		if err != nil {
			t.Fatal(err)
		}
		c, err := in.Accept(t.Context(), &Options{Markers: markers, NoCRC: true, RDMAC: RDMACPermissive})
		if err != nil {
			t.Fatal(err)
		}
		if p := c.Params(); p.Revision != 0 || !p.SendMarkers || !p.RecvMarkers || !p.CRC || p.Enhanced {
			t.Errorf("params %+v", p)
		}
		reply := make([]byte, StartupHeaderLen)
		if _, err := io.ReadFull(a, reply); err != nil {
			t.Fatal(err)
		}
		if reply[16] != 0xc0 || reply[17] != 0 {
			t.Errorf("Reply has flags %02x and Rev %d, want M and C and 0", reply[16], reply[17])
		}
	}
}

// Shows: MPA-C.2.3-01
func TestPermissiveInitiator(t *testing.T) {
	o := &Options{IRD: 1, ORD: 1, RTR: protocol.RTRWrite, RDMAC: RDMACPermissive}
	req, err := NewRequest(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Conclude(&req, &Startup{Kind: Reply, Markers: true, CRC: true}, o)
	if err != nil {
		t.Fatal(err)
	}
	if p.Revision != 0 || !p.SendMarkers || !p.RecvMarkers || !p.CRC || p.PeerToPeer {
		t.Errorf("params %+v", p)
	}
	o.RDMAC = RDMACNonPermissive
	if _, err := Conclude(&req, &Startup{Kind: Reply, Markers: true, CRC: true}, o); !errors.Is(err,
		&protocol.Error{Code: protocol.MPAStartup}) {
		t.Errorf("non-permissive initiator: %v, want a startup error", err)
	}
}

// Shows: MPA-C.2-01, MPA-7.1.1-15
func TestNonPermissiveResponder(t *testing.T) {
	a, b := memPipe()
	_, _ = a.Write(rdmacRequest)
	_, err := ReadRequest(t.Context(), b, &RequestOptions{RDMAC: RDMACNonPermissive})
	wantCode(t, err, protocol.MPAStartup)
	reply := make([]byte, StartupHeaderLen)
	if _, err := io.ReadFull(a, reply); err != nil {
		t.Fatal(err)
	}
	if s, _, err := ParseStartup(reply, Reply); err != nil || s.Revision != 1 {
		t.Errorf("answer %+v, %v; want a Reply of revision 1", s, err)
	}
	if n, err := a.Read(reply); n != 0 || err == nil {
		t.Errorf("after the Reply: %d octets, %v; want the end", n, err)
	}
}

// Shows: MPA-7.1.1-15, MPA2-10-04
func TestRefusedRevisions(t *testing.T) {
	a, b := memPipe()
	_, _ = a.Write(rdmacRequest[:18]) // known at the octet
	_, err := ReadRequest(t.Context(), b, nil)
	wantCode(t, err, protocol.MPAStartup)
	wantClosed(t, b, true)

	a, b = memPipe()
	_, _ = a.Write(unhexString(reqKeyHex + "5002000400010001"))
	_, err = ReadRequest(t.Context(), b, &RequestOptions{Unenhanced: true})
	wantCode(t, err, protocol.MPAStartup)
	wantClosed(t, b, true)
}
