package kit

import (
	"encoding/binary"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// content returns the octets of a region as the target makes it.
func content(kind byte, size uint32) []byte {
	b := make([]byte, size)
	advert.Fill(kind, b)
	return b
}

// target opens a connection to a target and takes its advert.
func (s *session) target() {
	s.open()
	s.awaitAdvert()
}

func (s *session) awaitAdvert() *advert.Advert {
	if o, ok := s.pump(s.timeout(), func() bool { return s.advert != nil }); !ok {
		s.fail("the peer %v, where the target's advert is due (docs/conform.md)", s.close2(o))
	}
	return s.advert
}

func (s *session) region(kind int) advert.Region {
	r := s.advert.Regions[kind]
	if r.Kind == 0 {
		s.notApplicable("the target advertises no region of kind %d", kind)
	}
	return r
}

// post sends a message to the target.
func (s *session) post(op byte, args ...[]byte) {
	if s.their.block && s.their.ord == 0 && (op == 'R' || op == 'A' || op == 'C' || op == 'M') {
		s.notApplicable("the peer makes no RDMA Reads: ORD 0 was agreed")
	}
	b := []byte{op}
	for _, a := range args {
		b = append(b, a...)
	}
	s.send(iwarptest.Send(s.msn(0), b))
}

// command is post, and gives the answer without its first octet, the small
// letter of op.
func (s *session) command(op byte, args ...[]byte) []byte {
	s.post(op, args...)
	return s.answer(op)
}

// answer waits for the next message, which must answer op.
func (s *session) answer(op byte) []byte {
	want := op | 0x20
	if o, ok := s.pump(s.timeout(), func() bool { return len(s.inbox) > 0 }); !ok {
		s.fail("the peer %v, where its answer %q is due (docs/conform.md)", s.close2(o), want)
	}
	m := s.inbox[0]
	s.inbox = s.inbox[1:]
	if len(m.data) == 0 || m.data[0] != want {
		s.fail("the target answers %.20q, where %q is due (docs/conform.md)", m.data, want)
	}
	return m.data[1:]
}

func u32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }
func u64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// fetch reads the peer's memory.
func (s *session) fetch(r advert.Region, off uint64, size uint32) []byte {
	s.probes++
	x := s.read(0x60000000+s.probes, 0, size, r.STag, r.TO+off)
	if o, ok := s.pump(s.timeout(), func() bool { return x.complete }); !ok {
		s.fail("an RDMA Read of %d octets: the peer %v (RFC 5040 section 5.2.1)", size, s.close2(o))
	}
	return x.data
}

// echo wants a message to come back as it was sent.
func (s *session) echo(data []byte) {
	got := s.command('E', data)
	s.echoed(got, false, 0, data)
}

// echoed looks at an answer to an echo: flags, the STag that was invalidated, and
// the data.
func (s *session) echoed(got []byte, solicited bool, invalidated uint32, data []byte) {
	if len(got) < 5 {
		s.fail("the target's echo has %d octets (docs/conform.md)", len(got)+1)
	}
	if (got[0]&1 != 0) != solicited {
		s.fail("the message was delivered with solicited event %t, sent with %t (RFC 5040 section 5.3)", got[0]&1 != 0,
			solicited)
	}
	if x := binary.BigEndian.Uint32(got[1:]); x != invalidated {
		s.fail("the target was told that STag %08x was invalidated, %08x is right (RFC 5040 section 5.3)", x,
			invalidated)
	}
	s.same("the message that was delivered", "RFC 5040 section 5.3", got[5:], data)
}
