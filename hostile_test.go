package iwarp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// victim is what a hostile peer attacks.
type victim struct {
	c    *iwarp.Conn
	p    *iwarptest.Peer
	g    *guarded  // of mr
	mr   *iwarp.MR // 100 octets at TO 1000, with all rights
	ro   *iwarp.MR // 100 octets, read only
	wo   *iwarp.MR // 100 octets, write only
	gone uint32    // an STag that was
}

func (v *victim) stag() uint32 { return uint32(v.mr.STag()) }

// attack is one way to misbehave.
type attack struct {
	name string
	// send does it, on a connection that has had one good message.
	send func(v *victim)
	code protocol.Code
	// echo is the length of the segment that the Terminate echoes; 0: none.
	echo   int
	silent bool // it is about a Terminate: none answers it
}

// remote reports whether the peer's Terminate names the error; one that cannot be read names
// none.
func (a attack) remote() bool { return a.silent && a.code != protocol.RDMAPOperationUnspecified }

func untouchedWrites(v *victim) []byte { return bytes.Repeat([]byte{0xee}, 10) }

func control(segment []byte, i int, v byte) []byte {
	segment[i] = v
	return segment
}

func attacks() []attack {
	w := func(f func(v *victim) []byte) func(*victim) { return func(v *victim) { v.p.Send(f(v)) } }
	ee := bytes.Repeat([]byte{0xee}, 10)
	return []attack{
		// STag, bounds, wrap
		{"Write to STag 0", w(func(*victim) []byte { return iwarptest.Write(0, 1000, ee) }), protocol.DDPTaggedInvalidSTag, 24, false},
		{"Write to a wrong STag", w(func(v *victim) []byte { return iwarptest.Write(v.stag()^0x100, 1000, ee) }), protocol.DDPTaggedInvalidSTag, 24, false},
		{"Write with a wrong key", w(func(v *victim) []byte { return iwarptest.Write(v.stag()^1, 1000, ee) }), protocol.DDPTaggedInvalidSTag, 24, false},
		{"Write to an STag that was", w(func(v *victim) []byte { return iwarptest.Write(v.gone, 0, ee) }), protocol.DDPTaggedInvalidSTag, 24, false},
		{"Write without the right", w(func(v *victim) []byte { return iwarptest.Write(uint32(v.ro.STag()), 0, ee) }), protocol.DDPTaggedInvalidSTag, 24, false},
		{"Write before the region", w(func(v *victim) []byte { return iwarptest.Write(v.stag(), 999, ee) }), protocol.DDPTaggedBounds, 24, false},
		{"Write from 0", w(func(v *victim) []byte { return iwarptest.Write(v.stag(), 0, ee) }), protocol.DDPTaggedBounds, 24, false},
		{"Write across the end", w(func(v *victim) []byte { return iwarptest.Write(v.stag(), 1091, ee) }), protocol.DDPTaggedBounds, 24, false},
		{"Write behind the end", w(func(v *victim) []byte { return iwarptest.Write(v.stag(), 1100, ee) }), protocol.DDPTaggedBounds, 24, false},
		{"Write that wraps", w(func(v *victim) []byte { return iwarptest.Write(v.stag(), ^uint64(0)-8, ee) }), protocol.DDPTaggedTOWrap, 24, false},
		{"second segment out of bounds", func(v *victim) { // R38
			v.p.Send(iwarptest.Tagged(0, false, v.stag(), 1000, make([]byte, 10)), iwarptest.Tagged(0, true, v.stag(), 1095, ee))
		}, protocol.DDPTaggedBounds, 24, false},
		{"Read of a wrong STag", w(func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, v.stag()^0x100, 1000) }), protocol.RDMAPInvalidSTag, 46, false},
		{"Read of an STag that was", w(func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, v.gone, 0) }), protocol.RDMAPInvalidSTag, 46, false},
		{"Read without the right", w(func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, uint32(v.wo.STag()), 0) }), protocol.RDMAPAccess, 46, false},
		{"Read across the end", w(func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 101, v.stag(), 1000) }), protocol.RDMAPBounds, 46, false},
		{"Read before the region", w(func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 1, v.stag(), 999) }), protocol.RDMAPBounds, 46, false},
		{"Read of 4 GiB", w(func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 1<<32-1, v.stag(), 1000) }), protocol.RDMAPBounds, 46, false},
		{"Read that wraps", w(func(v *victim) []byte { return iwarptest.ReadRequest(1, 1, 0, 10, v.stag(), ^uint64(0)-8) }), protocol.RDMAPTOWrap, 46, false},
		{"atomic on a wrong STag", w(func(v *victim) []byte { return iwarptest.FetchAdd(1, 1, v.stag()^0x100, 1000, 1, 0) }), protocol.RDMAPInvalidSTag, 70, false},
		{"atomic without the right", w(func(v *victim) []byte { return iwarptest.FetchAdd(1, 1, uint32(v.wo.STag()), 0, 1, 0) }), protocol.RDMAPAccess, 70, false},
		{"atomic across the end", w(func(v *victim) []byte { return iwarptest.FetchAdd(1, 1, v.stag(), 1096, 1, 0) }), protocol.RDMAPBounds, 70, false},
		{"atomic not aligned", w(func(v *victim) []byte { return iwarptest.CmpSwap(1, 1, v.stag(), 1001, 0, 1) }), protocol.RDMAPStreamCatastrophic, 70, false},
		{"atomic operation 1", w(func(v *victim) []byte { return iwarptest.AtomicRequest(1, 1, 1, v.stag(), 1000, 1, 0, 0, 0) }), protocol.RDMAPOpcode, 70, false},
		{"Invalidate of a wrong STag", w(func(v *victim) []byte { return iwarptest.SendInvalidate(2, v.stag()^0x100, nil) }), protocol.RDMAPCannotInvalidate, 18, false},

		// QN, MSN, MO, buffers
		{"QN 4", w(func(*victim) []byte { return iwarptest.Untagged(3, true, 0, 4, 1, 0, ee) }), protocol.DDPUntaggedQN, 28, false},
		{"QN 2^32-1", w(func(*victim) []byte { return iwarptest.Untagged(3, true, 0, 1<<32-1, 1, 0, ee) }), protocol.DDPUntaggedQN, 28, false},
		{"MSN 0", w(func(*victim) []byte { return iwarptest.Send(0, ee) }), protocol.DDPUntaggedMSN, 28, false},
		{"MSN again", w(func(*victim) []byte { return iwarptest.Send(1, ee) }), protocol.DDPUntaggedMSN, 28, false},
		{"MSN skipped", w(func(*victim) []byte { return iwarptest.Send(3, ee) }), protocol.DDPUntaggedMSN, 28, false},
		{"MO not 0", w(func(*victim) []byte { return iwarptest.Untagged(3, true, 0, 0, 2, 4, ee) }), protocol.DDPUntaggedMO, 28, false},
		{"MO with a gap", func(v *victim) {
			v.p.Send(iwarptest.Untagged(3, false, 0, 0, 2, 0, ee), iwarptest.Untagged(3, true, 0, 0, 2, 11, ee))
		}, protocol.DDPUntaggedMO, 28, false},
		{"Send longer than the buffer", w(func(*victim) []byte { return iwarptest.Send(2, make([]byte, 101)) }), protocol.DDPUntaggedTooLong, 119, false},
		{"Send longer than the buffer in its second segment", func(v *victim) {
			v.p.Send(iwarptest.Untagged(3, false, 0, 0, 2, 0, make([]byte, 100)), iwarptest.Untagged(3, true, 0, 0, 2, 100, []byte{1}))
		}, protocol.DDPUntaggedTooLong, 19, false},
		{"no buffer", func(v *victim) {
			v.p.Send(iwarptest.Send(2, nil), iwarptest.Send(3, nil), iwarptest.Send(4, nil), iwarptest.Send(5, nil), iwarptest.Send(6, ee))
		}, protocol.DDPUntaggedNoBuffer, 28, false},
		{"Read Request of 27 octets", w(func(*victim) []byte { return iwarptest.Untagged(1, true, 0, 1, 1, 0, make([]byte, 27)) }), protocol.RDMAPOperationUnspecified, 45, false},
		{"Read Request of 29 octets", w(func(*victim) []byte { return iwarptest.Untagged(1, true, 0, 1, 1, 0, make([]byte, 53)) }), protocol.DDPUntaggedTooLong, 71, false},

		// versions and opcodes
		{"DDP version 0, tagged", w(func(v *victim) []byte { return control(iwarptest.Write(v.stag(), 1000, ee), 0, 0xc0) }), protocol.DDPTaggedVersion, 24, false},
		{"DDP version 2, untagged", w(func(*victim) []byte { return control(iwarptest.Send(2, ee), 0, 0x42) }), protocol.DDPUntaggedVersion, 28, false},
		{"RDMAP version 0", w(func(v *victim) []byte { return control(iwarptest.Write(v.stag(), 1000, ee), 1, 0x00) }), protocol.RDMAPVersion, 24, false},
		{"RDMAP version 2", w(func(*victim) []byte { return control(iwarptest.Send(2, ee), 1, 0x83) }), protocol.RDMAPVersion, 28, false},
		{"opcode 12", w(func(*victim) []byte { return iwarptest.Untagged(12, true, 0, 0, 2, 0, ee) }), protocol.RDMAPOpcode, 28, false},
		{"opcode 15, tagged", w(func(v *victim) []byte { return iwarptest.Tagged(15, true, v.stag(), 1000, ee) }), protocol.RDMAPOpcode, 24, false},
		{"Send as tagged", w(func(v *victim) []byte { return iwarptest.Tagged(3, true, v.stag(), 1000, ee) }), protocol.RDMAPOpcode, 24, false},
		{"Write as untagged", w(func(*victim) []byte { return iwarptest.Untagged(0, true, 0, 0, 2, 0, ee) }), protocol.RDMAPOpcode, 28, false},
		{"Read Request on QN 0", w(func(*victim) []byte { return iwarptest.Untagged(1, true, 0, 0, 2, 0, make([]byte, 28)) }), protocol.RDMAPOpcode, 46, false},
		{"Send on QN 1", w(func(*victim) []byte { return iwarptest.Untagged(3, true, 0, 1, 1, 0, ee) }), protocol.RDMAPOpcode, 28, false},
		{"Read Response that nobody asked for", w(func(v *victim) []byte { return iwarptest.ReadResponse(v.stag(), 1000, ee) }), protocol.DDPTaggedInvalidSTag, 24, false},
		{"empty Read Response that nobody asked for", w(func(v *victim) []byte { return iwarptest.ReadResponse(v.stag(), 1000, nil) }), protocol.DDPTaggedInvalidSTag, 14, false},
		{"Immediate of 7 octets", w(func(*victim) []byte { return iwarptest.Untagged(8, true, 0, 0, 2, 0, make([]byte, 7)) }), protocol.RDMAPOperationUnspecified, 25, false},

		// MPA
		{"CRC", func(v *victim) {
			f := v.p.Out.Frame(iwarptest.Write(v.stag(), 1000, untouchedWrites(v)))
			f[len(f)-1] ^= 1
			v.p.SendRaw(f)
		}, protocol.MPACRC, 0, false},
		{"CRC of a payload octet", func(v *victim) {
			f := v.p.Out.Frame(iwarptest.Send(2, untouchedWrites(v)))
			f[22] ^= 0x80
			v.p.SendRaw(f)
		}, protocol.MPACRC, 0, false},
		{"segment of 0 octets", func(v *victim) { v.p.SendRaw(v.p.Out.Frame(nil)) }, protocol.DDPLocalCatastrophic, 0, false},
		{"tagged segment of 13 octets", w(func(v *victim) []byte { return iwarptest.Write(v.stag(), 1000, nil)[:13] }), protocol.DDPLocalCatastrophic, 0, false}, // R21
		{"untagged segment of 17 octets", w(func(*victim) []byte { return iwarptest.Send(2, nil)[:17] }), protocol.DDPLocalCatastrophic, 0, false},

		// Terminates of its own
		{"a Terminate", w(func(*victim) []byte { return iwarptest.Terminate(0x1203, iwarptest.Send(7, ee)) }), protocol.DDPUntaggedMSN, 0, true},
		{"a Terminate that cannot be read", w(func(*victim) []byte { return iwarptest.Untagged(7, true, 0, 2, 1, 0, []byte{1}) }), protocol.RDMAPOperationUnspecified, 0, true},
	}
}

// connect makes a victim with its hostile peer.
func (s setting) connect(t *testing.T, server bool) *victim {
	t.Helper()
	v := &victim{g: newGuarded(100)}
	cfg := &iwarp.Config{RecvDepth: 4, RecvSize: 100}
	if server {
		v.c, v.p = s.server(t, cfg)
	} else {
		v.c, v.p = s.client(t, cfg)
	}
	qp := v.c.QP()
	v.mr = must(v.c.PD().NewMR(v.g.mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic, &iwarp.MROptions{QP: qp, Base: 1000}))(t)
	v.ro = must(v.c.NewMR(make([]byte, 100), iwarp.RemoteRead))(t)
	v.wo = must(v.c.NewMR(make([]byte, 100), iwarp.RemoteWrite))(t)
	gone := must(v.c.NewMR(make([]byte, 100), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
	v.gone = uint32(gone.STag())
	gone.Close()
	v.p.Send(iwarptest.Send(1, []byte("a good message")))
	return v
}

// Each way of bad input: the error that the RFCs name at our API, the Terminate
// on the wire, no octet placed where it does not belong, the end of the
// connection, and a bystander of the same device that notices nothing.
// Shows: RDMAP-7.1-01, RDMAP-7.1-03, RDMAP-7.1-04, RDMAP-7.2-02, RDMAP-7.2-03, RDMAP-7.2-06, RDMAP-7.2-08, RDMAP-7.2-09, RDMAP-7.2-10
// Shows: RDMAP-5.3-13, RDMAP-5.4-07, RDMAP-6.2.1-01, RDMAP-6.2.1-04, RDMAP-8.1.1-03, DDP-7.1-01, DDP-7.1-04, DDP-7.1-05, DDP-7.1-06
// Shows: DDP-7.1-07, DDP-7.1-09, DDP-7.1-10, DDP-7.1-11, DDP-7.1-12, DDP-7.1-13, DDP-7.1-14, DDP-8.3.1-03, MPA-8-02, MPA-8-08, MPA-8-09, MPA-8-10
// Shows: EXT-5.1.2-02, EXT-8.2-05, EXT-5.2.1-10, EXT-6.3-07
func TestHostile(t *testing.T) {
	for _, a := range attacks() {
		for _, server := range []bool{false, true} {
			name := a.name + "/client"
			if server {
				name = a.name + "/server"
			}
			t.Run(name, func(t *testing.T) {
				inEachSetting(t, func(t *testing.T, s setting) { hostile(t, a, s.connect(t, server)) })
			})
		}
	}
}

func hostile(t *testing.T, a attack, v *victim) {
	bystander, friend := bystanders(t, v.c.PD().Device())
	read := make(chan error, 1)
	wantRecv(t, v.c, "a good message")
	before := bytes.Clone(v.g.all)
	a.send(v)
	if !a.silent {
		got := v.p.WantTerminate(a.name, uint16(a.code))
		wantEcho(t, got, a)
	}
	v.p.Send(iwarptest.Write(v.stag(), 1000, []byte("after"))) // swallowed
	v.p.WantEOF("the connection ends")
	go func() {
		var err error
		for err == nil {
			_, err = v.c.Recv(t.Context(), make([]byte, 100))
		}
		read <- err
	}()
	perr := wantCode(t, <-read, a.code, a.remote())
	if perr.Error() == "" || (!a.remote() && perr.Section == "") {
		t.Errorf("error without its rule: %+v", perr)
	}
	v.p.CloseWrite()
	wantDone(t, v.c)
	check(t, "Close", v.c.Close())
	wantCode(t, v.c.Err(), a.code, a.remote())
	if !bytes.Equal(v.g.all, before) {
		t.Errorf("memory has changed:\n%x\n%x", v.g.all, before)
	}
	check(t, "the bystander's Send", bystander.Send(testContext(t), []byte("still here")))
	wantRecv(t, friend, "still here")
	closeBoth(t, bystander, friend)
}

// bystanders makes another connection of the device.
func bystanders(t *testing.T, d *iwarp.Device) (a, b *iwarp.Conn) {
	x, y := pipe(nil)
	return startOn(t, x, y, &iwarp.Config{Device: d}, &iwarp.Config{Device: d})
}

// wantEcho looks at what a Terminate echoes: M, D, R, length and headers.
func wantEcho(t *testing.T, term []byte, a attack) {
	t.Helper()
	bits := term[2] >> 5
	if a.echo == 0 {
		if bits != 0 || len(term) != 4 {
			t.Errorf("Terminate %x echoes something", term)
		}
		return
	}
	if bits&6 != 6 || len(term) < 6+14 {
		t.Fatalf("Terminate %x: want M and D", term)
	}
	if n := int(binary.BigEndian.Uint16(term[4:])); n != a.echo {
		t.Errorf("echoed segment length %d, want %d", n, a.echo)
	}
	header := 18
	if term[6]&0x80 != 0 {
		header = 14
	}
	want := 6 + header
	if isRead := header == 18 && term[7]&0xf == 1; isRead && a.code.Layer() == protocol.LayerRDMAP && a.code.Type() == 1 {
		want += 28
		if bits&1 == 0 {
			t.Errorf("Terminate %x: want R for a Read Request", term)
		}
	}
	if len(term) != want {
		t.Errorf("Terminate of %d octets, want %d: %x", len(term), want, term)
	}
}

// R23: the very first FPDU of a connection is bad. The responder may not send
// then, unless MPA found the FPDU valid.
func TestHostileFirstFPDU(t *testing.T) {
	ee := make([]byte, 10)
	for _, c := range []struct {
		name    string
		segment []byte
		code    protocol.Code
	}{
		{"DDP version 0", control(iwarptest.Send(1, ee), 0, 0x40), protocol.DDPUntaggedVersion},
		{"DDP version 2", control(iwarptest.Send(1, ee), 0, 0x42), protocol.DDPUntaggedVersion},
		{"RDMAP version 0", control(iwarptest.Send(1, ee), 1, 0x03), protocol.RDMAPVersion},
		{"RDMAP version 2", control(iwarptest.Send(1, ee), 1, 0x83), protocol.RDMAPVersion},
		{"opcode 15", iwarptest.Untagged(15, true, 0, 0, 1, 0, ee), protocol.RDMAPOpcode},
	} {
		for _, server := range []bool{false, true} {
			inEachSetting(t, func(t *testing.T, s setting) {
				start := s.client
				if server {
					start = s.server
				}
				v, p := start(t, nil)
				p.Send(c.segment)
				p.WantTerminate(c.name, uint16(c.code))
				p.WantEOF("the end")
				p.CloseWrite()
				wantDone(t, v)
				wantCode(t, v.Err(), c.code, false)
			})
		}
	}
	// Not even MPA finds it valid: the responder sends nothing, and ends.
	inEachSetting(t, func(t *testing.T, s setting) {
		v, p := s.server(t, nil)
		f := p.Out.Frame(iwarptest.Send(1, ee))
		f[4] ^= 1
		p.SendRaw(f)
		p.WantEOF("no Terminate before a valid FPDU")
		p.CloseWrite()
		wantDone(t, v)
		wantCode(t, v.Err(), protocol.MPACRC, false)
	})
}

// A marker that disagrees, with a good CRC over it.
// Shows: MPA-8-03, MPA-8-04
func TestHostileMarker(t *testing.T) {
	inEachSetting(t, func(t *testing.T, s setting) {
		x, y := s.conns(t)
		p := iwarptest.NewPeer(t, y)
		got := make(chan accepted, 1)
		go func() {
			c, err := iwarp.Client(testContext(t), x, s.config(&iwarp.Config{Markers: true, RTR: iwarp.RTRNone}))
			got <- accepted{c, err}
		}()
		p.Respond("startup", iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, iwarptest.Enhanced(1, 1, nil)))
		v := <-got
		check(t, "Client", v.err)
		s.watch(t, v.c)
		f := p.Out.Frame(iwarptest.Send(1, pattern(600)))
		// The marker at position 512: FPDUPTR is its last two octets.
		f[512+3] += 4
		crc := iwarptest.CRC32C(f[:len(f)-4])
		binary.LittleEndian.PutUint32(f[len(f)-4:], crc)
		p.SendRaw(f)
		p.WantTerminate("marker and length disagree", uint16(protocol.MPAMarker))
		p.WantEOF("the end")
		p.CloseWrite()
		wantDone(t, v.c)
		wantCode(t, v.c.Err(), protocol.MPAMarker, false)
	})
}

// A peer whose answers to our Reads are wrong.
// Shows: RDMAP-5.2.2-05, EXT-5.2.2-06
func TestHostileResponses(t *testing.T) {
	for _, c := range []struct {
		name string
		wr   iwarp.SendWR
		send func(p *iwarptest.Peer, sink uint32)
		code protocol.Code
	}{
		{"another sink", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, sink uint32) { p.Send(iwarptest.ReadResponse(sink^1, 0, make([]byte, 10))) }, protocol.DDPTaggedInvalidSTag},
		{"TO beyond the sink", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, sink uint32) { p.Send(iwarptest.ReadResponse(sink, 1, make([]byte, 10))) }, protocol.DDPTaggedBounds},
		{"too long", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, sink uint32) { p.Send(iwarptest.ReadResponse(sink, 0, make([]byte, 11))) }, protocol.DDPTaggedBounds},
		{"TO wraps", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, sink uint32) {
			p.Send(iwarptest.ReadResponse(sink, ^uint64(0), make([]byte, 10)))
		}, protocol.DDPTaggedTOWrap},
		{"too short", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, sink uint32) { p.Send(iwarptest.ReadResponse(sink, 0, make([]byte, 9))) }, protocol.RDMAPOperationUnspecified},
		{"empty", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, sink uint32) { p.Send(iwarptest.ReadResponse(sink, 0, nil)) }, protocol.RDMAPOperationUnspecified},
		{"a Write to the sink", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, sink uint32) { p.Send(iwarptest.Write(sink, 0, make([]byte, 10))) }, protocol.DDPTaggedInvalidSTag},
		{"an Atomic Response", iwarp.SendWR{Op: iwarp.OpRead}, func(p *iwarptest.Peer, _ uint32) { p.Send(iwarptest.AtomicResponse(1, 1, 0)) }, protocol.DDPUntaggedNoBuffer},
		{"wrong identifier", iwarp.SendWR{Op: iwarp.OpFetchAdd}, func(p *iwarptest.Peer, _ uint32) { p.Send(iwarptest.AtomicResponse(1, 9, 0)) }, protocol.RDMAPOperationUnspecified},
		{"short Atomic Response", iwarp.SendWR{Op: iwarp.OpFetchAdd}, func(p *iwarptest.Peer, _ uint32) { p.Send(iwarptest.Untagged(11, true, 0, 3, 1, 0, make([]byte, 11))) }, protocol.RDMAPOperationUnspecified},
		{"Read Response for an atomic", iwarp.SendWR{Op: iwarp.OpFetchAdd}, func(p *iwarptest.Peer, sink uint32) { p.Send(iwarptest.ReadResponse(sink, 0, make([]byte, 8))) }, protocol.DDPTaggedInvalidSTag},
	} {
		t.Run(c.name, func(t *testing.T) {
			inEachSetting(t, func(t *testing.T, s setting) {
				v, p := s.client(t, nil)
				g := newGuarded(10)
				if c.wr.Op == iwarp.OpRead {
					c.wr.SG = [][]byte{g.mem}
				}
				check(t, "PostSend", v.QP().PostSend(c.wr))
				req := p.Frame("the request")
				c.send(p, binary.BigEndian.Uint32(req[18:]))
				p.WantTerminate(c.name, uint16(c.code))
				p.WantEOF("the end")
				p.CloseWrite()
				got := collect(t, v.QP().SendCQ(), 1)[0]
				// What is no Response is not this request's fault.
				if flushed := c.name == "a Write to the sink"; errors.Is(got.Err, iwarp.ErrFlushed) != flushed || got.Op != c.wr.Op {
					t.Errorf("completion %+v", got)
				}
				wantCode(t, got.Err, c.code, false)
				g.check(t)
			})
		})
	}
}

// A peer with more Reads outstanding than IRD (RDMAP-6.1-05).
// Shows: RDMAP-6.1-05, RDMAP-6.1-02
func TestHostileReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := pipe(&iwarptest.PipeConfig{Window: 1 << 10})
		v, p := serverOn(t, x, y, &iwarp.Config{IRD: 2})
		mr := must(v.NewMR(make([]byte, 100_000), iwarp.RemoteRead))(t)
		for i := range uint32(5) {
			p.Send(iwarptest.ReadRequest(i+1, 1, 0, 100_000, uint32(mr.STag()), 0))
		}
		// The window keeps the first Responses from going out.
		synctest.Wait()
		wantCode(t, v.Err(), protocol.DDPUntaggedNoBuffer, false)
		for {
			if s := p.Frame("the rest, then the Terminate"); s[0]&0x80 == 0 && s[1]&0xf == 7 {
				if code := binary.BigEndian.Uint16(s[18:]); code != uint16(protocol.DDPUntaggedNoBuffer) {
					t.Errorf("Terminate 0x%04x", code)
				}
				break
			}
		}
		p.WantEOF("the end")
	})
}

// The same over TCP, which has buffers of its own.
// Shows: RDMAP-6.1-05
func TestHostileReadsTCP(t *testing.T) {
	overTCP(t, func(t *testing.T, s setting) {
		const n = 32 << 20
		v, p := s.server(t, &iwarp.Config{IRD: 2})
		mr := must(v.NewMR(make([]byte, n), iwarp.RemoteRead))(t)
		defer mr.Close()
		for i := range uint32(5) {
			p.Send(iwarptest.ReadRequest(i+1, 1, 0, n, uint32(mr.STag()), 0))
		}
		// Nothing is read yet, so the first Responses do not end.
		_, err := v.Recv(testContext(t), nil)
		wantCode(t, err, protocol.DDPUntaggedNoBuffer, false)
	})
}

// R60: each Terminate that the RFCs define reaches the caller, with what it
// echoes.
// Shows: RDMAP-5.4-04, RDMAP-5.4-05, RDMAP-5.4-03
func TestEachTerminate(t *testing.T) {
	for _, code := range protocol.Codes() {
		inEachSetting(t, func(t *testing.T, s setting) {
			v, p := s.client(t, nil)
			check(t, "Write", v.RDMAWrite(testContext(t), []byte("octets"), iwarp.RemoteBuffer{STag: 0x1234500, TO: 77}))
			write := p.Frame("the Write")
			p.Send(iwarptest.Terminate(uint16(code), write))
			p.WantEOF("no Terminate answers a Terminate")
			p.CloseWrite()
			wantDone(t, v)
			perr := wantCode(t, v.Err(), code, true)
			if o := perr.Offender; o == nil || int(o.SegmentLength) != len(write) || !bytes.Equal(o.DDPHeader, write[:14]) {
				t.Errorf("%v: echoed %+v", code, o)
			}
		})
	}
}

// Peers that stop half-way, at each octet of an FPDU, with a FIN or a reset.
// Shows: MPA-8-01, MPA-6-03
func TestHalfFPDU(t *testing.T) {
	frame := iwarptest.FPDU(iwarptest.Send(1, []byte("hello")))
	for part := range iwarptest.Prefixes(frame) {
		for _, reset := range []bool{false, true} {
			inEachSetting(t, func(t *testing.T, s setting) {
				v, p := s.server(t, nil)
				p.SendRaw(part)
				s.settle()
				if reset {
					p.Abort()
				} else {
					p.CloseWrite()
				}
				_, err := v.Recv(testContext(t), make([]byte, 10))
				if len(part) == 0 && !reset {
					if err != io.EOF {
						t.Errorf("FIN between FPDUs: %v", err)
					}
					return
				}
				wantCode(t, err, protocol.MPAConnectionLost, false)
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("%v is not net.ErrClosed", err)
				}
				wantDone(t, v)
			})
		}
	}
}
