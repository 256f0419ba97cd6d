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

func untouchedWrites(v *victim) []byte { return bytes.Repeat([]byte{0xee}, 10) }

func control(segment []byte, i int, v byte) []byte {
	segment[i] = v
	return segment
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
	v.mr = must(v.c.PD().NewMR(v.g.mem, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic,
		&iwarp.MROptions{QP: qp, Base: 1000}))(t)
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
// Shows: RDMAP-7.1-01, RDMAP-7.1-03, RDMAP-7.1-04, RDMAP-7.2-02, RDMAP-7.2-03, RDMAP-7.2-06, RDMAP-7.2-08
// Shows: RDMAP-7.2-09, RDMAP-7.2-10
// Shows: RDMAP-5.3-13, RDMAP-5.4-07, RDMAP-6.2.1-01, RDMAP-6.2.1-04, RDMAP-8.1.1-03, DDP-7.1-01, DDP-7.1-04
// Shows: DDP-7.1-05, DDP-7.1-06
// Shows: DDP-7.1-07, DDP-7.1-09, DDP-7.1-10, DDP-7.1-11, DDP-7.1-12, DDP-7.1-13, DDP-7.1-14, DDP-8.3.1-03
// Shows: MPA-8-02, MPA-8-08, MPA-8-09, MPA-8-10
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
	echo := a.send(v)
	if !a.silent {
		got := v.p.WantTerminate(a.name, uint16(a.code))
		wantEcho(t, got, a.code, echo)
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
	perr := wantCode(t, <-read, a.code, a.remote)
	if perr.Error() == "" || (!a.remote && perr.Section == "") {
		t.Errorf("error without its rule: %+v", perr)
	}
	v.p.CloseWrite()
	wantDone(t, v.c)
	check(t, "Close", v.c.Close())
	wantCode(t, v.c.Err(), a.code, a.remote)
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

// wantEcho looks at what a Terminate of that code echoes of a segment of so many
// octets: M, D, R, length and headers. 0: of none.
func wantEcho(t *testing.T, term []byte, code protocol.Code, echo int) {
	t.Helper()
	bits := term[2] >> 5
	if echo == 0 {
		if bits != 0 || len(term) != 4 {
			t.Errorf("Terminate %x echoes something", term)
		}
		return
	}
	if bits&6 != 6 || len(term) < 6+14 {
		t.Fatalf("Terminate %x: want M and D", term)
	}
	if n := int(binary.BigEndian.Uint16(term[4:])); n != echo {
		t.Errorf("echoed segment length %d, want %d", n, echo)
	}
	header := 18
	if term[6]&0x80 != 0 {
		header = 14
	}
	want := 6 + header
	if isRead := header == 18 && term[7]&0xf == 1; isRead && code.Layer() == protocol.LayerRDMAP && code.Type() == 1 {
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
		{name: "DDP version 0", segment: control(iwarptest.Send(1, ee), 0, 0x40), code: protocol.DDPUntaggedVersion},
		{name: "DDP version 2", segment: control(iwarptest.Send(1, ee), 0, 0x42), code: protocol.DDPUntaggedVersion},
		{name: "RDMAP version 0", segment: control(iwarptest.Send(1, ee), 1, 0x03), code: protocol.RDMAPVersion},
		{name: "RDMAP version 2", segment: control(iwarptest.Send(1, ee), 1, 0x83), code: protocol.RDMAPVersion},
		{
			name:    "opcode 15",
			segment: iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 15, Last: true, MSN: 1}, ee),
			code:    protocol.RDMAPOpcode,
		},
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
			c, err := iwarp.Client(testContext(t), x,
				s.config(&iwarp.Config{MPA: iwarp.MPAConfig{Markers: true, RTR: iwarp.RTRNone}}))
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
		name    string
		op      iwarp.Op
		answer  func(sink uint32) []byte
		code    protocol.Code
		flushed bool // the answer is no Response: it is not this request's fault
	}{
		{
			name: "another sink", op: iwarp.OpRead, code: protocol.DDPTaggedInvalidSTag,
			answer: func(sink uint32) []byte { return iwarptest.ReadResponse(sink^1, 0, make([]byte, 10)) },
		},
		{
			name: "TO beyond the sink", op: iwarp.OpRead, code: protocol.DDPTaggedBounds,
			answer: func(sink uint32) []byte { return iwarptest.ReadResponse(sink, 1, make([]byte, 10)) },
		},
		{
			name: "too long", op: iwarp.OpRead, code: protocol.DDPTaggedBounds,
			answer: func(sink uint32) []byte { return iwarptest.ReadResponse(sink, 0, make([]byte, 11)) },
		},
		{
			name: "TO wraps", op: iwarp.OpRead, code: protocol.DDPTaggedTOWrap,
			answer: func(sink uint32) []byte { return iwarptest.ReadResponse(sink, ^uint64(0), make([]byte, 10)) },
		},
		{
			name: "too short", op: iwarp.OpRead, code: protocol.RDMAPOperationUnspecified,
			answer: func(sink uint32) []byte { return iwarptest.ReadResponse(sink, 0, make([]byte, 9)) },
		},
		{
			name: "empty", op: iwarp.OpRead, code: protocol.RDMAPOperationUnspecified,
			answer: func(sink uint32) []byte { return iwarptest.ReadResponse(sink, 0, nil) },
		},
		{
			name: "a Write to the sink", op: iwarp.OpRead, code: protocol.DDPTaggedInvalidSTag, flushed: true,
			answer: func(sink uint32) []byte { return iwarptest.Write(sink, 0, make([]byte, 10)) },
		},
		{
			name: "an Atomic Response", op: iwarp.OpRead, code: protocol.DDPUntaggedNoBuffer,
			answer: func(uint32) []byte { return iwarptest.AtomicResponse(1, 1, 0) },
		},
		{
			name: "wrong identifier", op: iwarp.OpFetchAdd, code: protocol.RDMAPOperationUnspecified,
			answer: func(uint32) []byte { return iwarptest.AtomicResponse(1, 9, 0) },
		},
		{
			name: "short Atomic Response", op: iwarp.OpFetchAdd, code: protocol.RDMAPOperationUnspecified,
			answer: func(uint32) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 11, Last: true, QN: 3, MSN: 1},
					make([]byte, 11))
			},
		},
		{
			name: "Read Response for an atomic", op: iwarp.OpFetchAdd, code: protocol.DDPTaggedInvalidSTag,
			answer: func(sink uint32) []byte { return iwarptest.ReadResponse(sink, 0, make([]byte, 8)) },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			inEachSetting(t, func(t *testing.T, s setting) {
				v, p := s.client(t, nil)
				g := newGuarded(10)
				wr := iwarp.SendWR{Op: c.op}
				if c.op == iwarp.OpRead {
					wr.SG = [][]byte{g.mem}
				}
				check(t, "PostSend", v.QP().PostSend(wr))
				req := p.Frame("the request")
				p.Send(c.answer(binary.BigEndian.Uint32(req[18:])))
				p.WantTerminate(c.name, uint16(c.code))
				p.WantEOF("the end")
				p.CloseWrite()
				got := collect(t, v.QP().SendCQ(), 1)[0]
				if errors.Is(got.Err, iwarp.ErrFlushed) != c.flushed || got.Op != c.op {
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
	for i := range 1 << 16 {
		code := protocol.Code(i)
		if !code.Defined() || code > protocol.RDMAPLocalCatastrophic && code < protocol.RDMAPInvalidSTag {
			continue // not defined, or one more of RDMAP's local catastrophic ones
		}
		inEachSetting(t, func(t *testing.T, s setting) {
			v, p := s.client(t, nil)
			check(t, "Write",
				v.RDMAWrite(testContext(t), []byte("octets"), iwarp.RemoteBuffer{STag: 0x1234500, TO: 77}))
			write := p.Frame("the Write")
			p.Send(iwarptest.Terminate(uint16(code), write))
			p.WantEOF("no Terminate answers a Terminate")
			p.CloseWrite()
			wantDone(t, v)
			perr := wantCode(t, v.Err(), code, true)
			if o := perr.Offender; o == nil || int(o.SegmentLength) != len(write) ||
				!bytes.Equal(o.DDPHeader, write[:14]) {
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
