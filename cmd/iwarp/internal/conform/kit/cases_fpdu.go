package kit

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// lengthCases have ULPDUs of every length around that of the headers.
func lengthCases() []*Case {
	var all []*Case
	short := func(id, ids, sends string, segment func(s *session) []byte) {
		all = append(all, &Case{
			ID: "length/" + id, Rules: rules(ids), Roles: Either, Level: Crasher,
			Rule: "A segment shorter than its header is an error; no code exists for it", Sends: sends,
			Legal: legal(
				terminate("RFC 5041 section 7.2, RFC 5044 section 8, RFC 5040 section 4.8: no code is meant for it",
					0x1000, 0x2003, 0x1100, 0x1201, 0x1202, 0x1203, 0x1205, 0x02ff, 0x0206, 0x0207, 0x0000),
				end("RFC 5041 section 7.2")),
			run: func(s *session) {
				s.open()
				s.send(segment(s))
				s.judge()
			},
		})
	}
	for n := range 14 {
		short(fmt.Sprintf("ulpdu-%02d-tagged", n), "DDP-4.2-01 DDP-4.4-01 R21",
			fmt.Sprintf("a ULPDU of %d octets, the start of a Write", n),
			func(*session) []byte { return iwarptest.Write(0, 0, nil)[:n] })
	}
	for n := 2; n < 18; n++ {
		short(fmt.Sprintf("ulpdu-%02d-untagged", n), "DDP-4.3-01 DDP-4.4-01 R21",
			fmt.Sprintf("a ULPDU of %d octets, the start of a Send", n),
			func(s *session) []byte { return iwarptest.Send(s.next[0], nil)[:n] })
	}
	body := func(id, ids, sends string, segment func(s *session) []byte, answers ...Answer) {
		all = append(all, &Case{
			ID: "length/" + id, Rules: rules(ids), Roles: Either, Level: Crasher,
			Rule: "A message that has a header of RDMAP's has all of it, and no more", Sends: sends, Legal: answers,
			run: func(s *session) {
				s.open()
				s.send(segment(s))
				s.judge()
			},
		})
	}
	wrong := terminate("RFC 5040 sections 4.4 and 7.1: no code is meant for it", 0x02ff, 0x0206, 0x0207, 0x1205, 0x1000,
		0x2003, 0x0104, 0x0101, 0x01ff)
	bye := end("RFC 5040 section 7.1")
	none := terminate("RFC 5040 section 7.2, where RFC 7306 is not done", 0x0206, 0x1201, 0x1202)
	for _, n := range []int{0, 1, 27, 29, 32} {
		body(fmt.Sprintf("read-request-%02d-of-28", n), "RDMAP-4.4-01 R21",
			fmt.Sprintf("a Read Request with %d octets", n),
			func(s *session) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 1, Last: true, QN: 1, MSN: s.msn(1)},
					make([]byte, n))
			}, wrong, bye)
	}
	for _, n := range []int{0, 28, 51, 53} {
		body(fmt.Sprintf("atomic-request-%02d-of-52", n), "EXT-5.2.1-01 R21",
			fmt.Sprintf("an Atomic Request with %d octets", n),
			func(s *session) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 10, Last: true, QN: 1, MSN: s.msn(1)},
					make([]byte, n))
			}, wrong, none, bye)
	}
	for _, n := range []int{0, 7, 9} {
		body(fmt.Sprintf("immediate-%02d-of-08", n), "EXT-6.3-06 EXT-6.3-07 R21 R43",
			fmt.Sprintf("Immediate Data with %d octets", n),
			func(s *session) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 8, Last: true, MSN: s.msn(0)},
					make([]byte, n))
			}, wrong, none, bye)
	}
	for _, n := range []int{0, 11, 12, 13} {
		body(fmt.Sprintf("atomic-response-%02d-stray", n), "EXT-5.2.2-01 EXT-5.2.2-06 R21",
			fmt.Sprintf("an Atomic Response with %d octets that nobody asked for", n),
			func(*session) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 11, Last: true, QN: 3, MSN: 1},
					make([]byte, n))
			}, wrong, none, bye,
			terminate("RFC 5041 section 7.1: no buffer", 0x1202, 0x1203))
	}
	return append(all, goodLengths()...)
}

// goodLengths move messages of many lengths, so that each PAD and each place of a
// Marker occurs, and cut FPDUs over TCP segments.
func goodLengths() []*Case {
	var all []*Case
	for _, n := range []int{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 63, 64, 65, 255, 256, 473, 474, 475, 476, 477, 478, 479, 480, 488, 492, 500, 512,
		1000, 1436, 1442, 1448, 2048, 4090,
	} {
		all = append(all, &Case{
			ID:    fmt.Sprintf("length/echo-%04d", n),
			Rules: rules("MPA-4.1-01 MPA-4.1-02 MPA-4.1-05 MPA-3-07 MPA-4.3-12 RDMAP-5.3-06 R29"), Roles: Either,
			Needs: Target, Level: Good,
			Rule:  "A message comes to the ULP octet by octet as it was sent",
			Sends: fmt.Sprintf("a Send of %d octets and more, to be echoed", n),
			Legal: legal(carryOn("RFC 5044 section 4.1")),
			run: func(s *session) {
				s.target()
				data := content(77, uint32(n))
				for range 3 { // at other places in the stream
					s.echo(data)
				}
				s.bye()
			},
		})
	}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 500, 501, 4096} {
		all = append(all, &Case{
			ID:    fmt.Sprintf("length/write-%04d", n),
			Rules: rules("DDP-5.2-04 DDP-5.2-06 RDMAP-5.1-03 RDMAP-5.1-04 RDMAP-5.2.1-09"), Roles: Either,
			Needs: Target, Level: Good,
			Rule: "What is written is there", Sends: fmt.Sprintf("a Write of %d octets, and a Read of them", n),
			Legal: legal(carryOn("RFC 5040 section 5.1")),
			run: func(s *session) {
				s.target()
				r := s.region(advert.All)
				data := content(78, uint32(n))
				s.send(iwarptest.Write(r.STag, r.TO, data))
				got := s.fetch(r, 0, r.Size)
				s.same("the region after the Write", "RFC 5041 section 5.2", got,
					append(data, content(advert.All, r.Size)[n:]...))
				s.bye()
			},
		})
	}
	for at := 1; at < 32; at++ {
		all = append(all, &Case{
			ID: fmt.Sprintf("length/fpdu-split-%02d", at), Rules: rules("MPA-5.1-05 MPA-5.2-01 MPA-6-03 MPA-A.4-01"),
			Roles: Either, Level: Good,
			Rule:  "FPDUs need not start or end at TCP segments",
			Sends: fmt.Sprintf("two FPDUs of Reads of no octets, cut before octet %d", at),
			Legal: legal(carryOn("RFC 5044 section 5.1")),
			run: func(s *session) {
				s.open()
				a := iwarptest.ReadRequest(s.msn(1), 1, 0, 0, 0, 0)
				first := &read{stag: 1}
				s.reads = append(s.reads, first)
				s.count(a)
				f := s.p.Out.Frame(a)
				s.raw("the first piece", f[:at])
				time.Sleep(2 * time.Millisecond)
				s.raw("the rest", f[at:])
				if o, ok := s.pump(s.timeout(), func() bool { return first.complete }); !ok {
					s.fail("a Read Request in two TCP segments: the peer %v (RFC 5044 section 5.1)", s.close2(o))
				}
				s.works("after a cut FPDU")
			},
		})
	}
	return append(all, &Case{
		ID: "length/fpdu-octet-by-octet", Rules: rules("MPA-5.1-05 MPA-6-03"), Roles: Either, Level: Good,
		Rule: "FPDUs need not start or end at TCP segments", Sends: "an FPDU, one octet a write",
		Legal: legal(carryOn("RFC 5044 section 5.1")),
		run: func(s *session) {
			s.open()
			s.pieces(s.p.Out.Frame(iwarptest.Write(0, 0, nil)), 0)
			s.works("after a dribbled FPDU")
			s.bye()
		},
	}, &Case{
		ID: "length/many-fpdus-in-one-write", Rules: rules("MPA-5.1-04 MPA-5.1-05 MPA-3-01"), Roles: Either,
		Level: Good,
		Rule:  "Several FPDUs may go in one TCP segment", Sends: "100 empty Writes in one write",
		Legal: legal(carryOn("RFC 5044 section 5.1")),
		run: func(s *session) {
			s.open()
			var segs [][]byte
			for range 100 {
				segs = append(segs, iwarptest.Write(0, 0, nil))
			}
			s.send(segs...)
			s.works("after 100 FPDUs in one write")
			s.bye()
		},
	})
}

// paddingCases have PAD octets that are not zero: they are ignored but for the
// CRC.
func paddingCases() []*Case {
	var all []*Case
	for n := 1; n < 4; n++ {
		all = append(all, &Case{
			ID: fmt.Sprintf("padding/not-zero-%d", n), Rules: rules("MPA-4.1-04 MPA-4.4-12"), Roles: Either,
			Needs: Target, Level: Hostile,
			Rule:  "PAD is ignored on receive, but for the CRC",
			Sends: fmt.Sprintf("an FPDU whose %d octets of PAD are ff, with a CRC over them", n),
			Legal: legal(carryOn("RFC 5044 section 4.1")),
			run: func(s *session) {
				s.target()
				if s.p.Out.Markers {
					s.notApplicable("the peer wants Markers")
				}
				data := content(76, 4)
				for (2+18+1+len(data)+n)%4 != 0 { // length, header, 'E', data, PAD
					data = append(data, 0)
				}
				f := s.p.Out.Frame(iwarptest.Send(s.msn(0), append([]byte("E"), data...)))
				for i := range n {
					f[len(f)-5-i] = 0xff
				}
				if !s.p.Out.NoCRC {
					iwarptest.FixCRC(f)
				}
				s.raw("the FPDU", f)
				s.echoed(s.answer('E'), false, 0, data)
				s.judge()
			},
		})
	}
	return all
}

// crcCases break the CRC, or what it covers.
func crcCases() []*Case {
	var all []*Case
	lost := legal(terminate("RFC 5044 section 8, RFC 5040 section 6.2.1", 0x2002),
		end("RFC 5044 section 8: the ULP closes; a Terminate is a SHOULD of RFC 5040 section 6.2.1"))
	add := func(id, sends string, first bool, segment func(s *session) []byte, spoil func(f []byte)) {
		answers := lost
		if first {
			answers = legal(end("RFC 5044 section 7.1.2 rule 4: nothing is sent before a valid FPDU"),
				terminate("RFC 5044 section 8", 0x2002))
		}
		all = append(all, &Case{
			ID: "crc/" + id, Rules: rules("MPA-8-02 MPA-4.4-12 MPA-4.4-14 MPA-4.4-15 MPA-6-01 MPA-8-08 MPA-8-10"),
			Roles: Either, Level: Hostile,
			Rule: "An FPDU whose CRC does not match is not passed on: error 2 of MPA", Sends: sends, Legal: answers,
			run: func(s *session) {
				s.noNudge = first
				if first && s.k.o.Role == Responder {
					s.notApplicable("the initiator sends first")
				}
				s.open(func(h *hello) {
					if first {
						h.a, h.rtr = false, 0
					}
				})
				if s.p.Out.NoCRC {
					s.notApplicable("both ends go without CRC")
				}
				if s.k.o.ULP == Target && !first {
					s.awaitAdvert()
				}
				f := s.p.Out.Frame(segment(s))
				spoil(f)
				s.raw(sends, f)
				s.judge()
			},
		})
	}
	write := func(s *session) []byte {
		if s.advert != nil {
			r := s.region(advert.All)
			return iwarptest.Write(r.STag, r.TO, content(79, 101))
		}
		return iwarptest.Write(0x11223344, 0, content(79, 101))
	}
	send := func(s *session) []byte { return iwarptest.Send(s.msn(0), content(80, 50)) }
	// Offsets count from the end, so that a Marker at the start does no harm: the
	// FPDU of the Write is 2+14+101 octets, 3 of PAD, 4 of CRC.
	for _, at := range []struct {
		id     string
		offset int
		bit    byte
	}{
		{id: "ddp-control", offset: 2, bit: 0x04},
		{id: "rdmap-control", offset: 3, bit: 0x10},
		{id: "stag", offset: 7, bit: 1},
		{id: "to", offset: 15, bit: 0x80},
		{id: "first-octet", offset: 16, bit: 1},
		{id: "middle", offset: 60, bit: 0x10},
		{id: "last-octet", offset: 116, bit: 0x80},
		{id: "pad", offset: 118, bit: 1},
		{id: "crc-0", offset: 120, bit: 1},
		{id: "crc-1", offset: 121, bit: 1},
		{id: "crc-2", offset: 122, bit: 1},
		{id: "crc-3", offset: 123, bit: 0x80},
	} {
		add("write-"+at.id, "a Write with one bit changed: "+at.id, false, write,
			func(f []byte) { f[len(f)-124+at.offset] ^= at.bit })
	}
	for _, at := range []struct {
		id     string
		offset int
	}{
		{id: "qn", offset: 11},
		{id: "msn", offset: 15},
		{id: "mo", offset: 19},
		{id: "payload", offset: 40},
		{id: "crc", offset: 72},
	} {
		add("send-"+at.id, "a Send with one bit changed: "+at.id, false, send,
			func(f []byte) { f[len(f)-76+at.offset] ^= 2 })
	}
	add("read-request", "a Read Request with one bit of its size changed", false,
		func(s *session) []byte {
			return iwarptest.ReadRequest(s.msn(1), 1, 0, 0, 0, 0)
		}, func(f []byte) { f[len(f)-20] ^= 2 })
	add("zero", "a CRC of zero", false, write, func(f []byte) { copy(f[len(f)-4:], make([]byte, 4)) })
	add("inverted", "a CRC without its last inversion", false, write, func(f []byte) {
		for i := len(f) - 4; i < len(f); i++ {
			f[i] ^= 0xff
		}
	})
	add("big-endian", "a CRC with its octets the other way round", false, write, func(f []byte) {
		c := f[len(f)-4:]
		c[0], c[1], c[2], c[3] = c[3], c[2], c[1], c[0]
	})
	add("ethernet", "a CRC of the wrong polynomial", false, write, func(f []byte) {
		binary.LittleEndian.PutUint32(f[len(f)-4:], crc32.ChecksumIEEE(f[:len(f)-4]))
	})
	add("without-length", "a CRC that does not cover ULPDU_Length", false, write, func(f []byte) {
		binary.LittleEndian.PutUint32(f[len(f)-4:], iwarptest.CRC32C(f[len(f)-122:len(f)-4]))
	})
	add("without-pad", "a CRC that does not cover PAD", false, write, func(f []byte) {
		binary.LittleEndian.PutUint32(f[len(f)-4:], iwarptest.CRC32C(f[:len(f)-7]))
	})
	add("first-fpdu", "the very first FPDU with a wrong CRC", true, write, func(f []byte) { f[len(f)-1] ^= 1 })
	return append(all, noCRCCases()...)
}

func noCRCCases() []*Case {
	run := func(id string, value []byte) *Case {
		return &Case{
			ID: "crc/off-" + id, Rules: rules("MPA-4.1-06 MPA-4.4-08 MPA-4.4-10 MPA-7.1.1-08 MPA-7.1.1-10 R26"),
			Roles: Either, Level: Hostile,
			Rule:  "When both frames have C=0 the CRC field is there, and counts as right whatever it holds",
			Sends: "C=0, and FPDUs with the CRC field " + id,
			Legal: legal(carryOn("RFC 5044 section 7.1.1")),
			run: func(s *session) {
				s.open(func(h *hello) { h.flags &^= iwarptest.FlagC })
				if !s.p.Out.NoCRC {
					s.notApplicable("the peer wants the CRC")
				}
				f := s.p.Out.Frame(iwarptest.Write(0, 0, nil))
				copy(f[len(f)-4:], value)
				s.raw("an empty Write", f)
				s.judge()
			},
		}
	}
	return []*Case{
		run("zero", make([]byte, 4)), run("ones", []byte{0xff, 0xff, 0xff, 0xff}),
		run("random", []byte{0xde, 0xad, 0xbe, 0xef}),
	}
}

// markerCases put Markers where the peer wants them, right and wrong.
func markerCases() []*Case {
	var all []*Case
	for phase := 0; phase < 512; phase += 16 {
		all = append(all, &Case{
			ID:    fmt.Sprintf("marker/phase-%03d", phase),
			Rules: rules("MPA-4.2-01 MPA-4.2-03 MPA-4.3-05 MPA-4.3-07 MPA-4.3-10 MPA-4.3-11 MPA-4.4-12 MPA-4.4-13 R19"),
			Roles: Either, Level: Good,
			Rule:  "A Marker may fall at any place of an FPDU, between PAD and CRC, or between FPDUs",
			Sends: fmt.Sprintf("FPDUs that start %d to %d octets behind a Marker", phase, phase+12),
			Legal: legal(carryOn("RFC 5044 section 4.3")),
			run: func(s *session) {
				s.open()
				s.needMarkers()
				for p := phase; p < phase+16; p += 4 {
					s.toPhase(uint64(p))
					s.works(fmt.Sprintf("an FPDU %d octets behind a Marker", p))
				}
				s.bye()
			},
		})
	}
	bad := func(id, ids, rule, sends string, spoil func(f []byte, marker int) []byte, answers ...Answer) {
		all = append(all, &Case{
			ID: "marker/" + id, Rules: rules(ids), Roles: Either, Needs: Raw, Level: Hostile, Rule: rule, Sends: sends,
			Legal: answers,
			run: func(s *session) {
				s.open()
				s.needMarkers()
				if s.p.Out.NoCRC && strings.Contains(ids, "MPA-4.4-12") {
					s.notApplicable("both ends go without CRC")
				}
				s.toPhase(400)
				f := s.p.Out.Frame(iwarptest.Write(0xdeadbeef, 0, make([]byte, 200)))
				f = spoil(f, 512-400)
				s.raw(sends, f)
				s.judge()
			},
		})
	}
	disagree := terminate("RFC 5044 section 8", 0x2003)
	ignored := terminate("RFC 5044 section 5.2: markers need not be used; the Write is to an unknown STag", 0x1100)
	corrupt := terminate("RFC 5044 section 8", 0x2002, 0x2003)
	fix := func(f []byte) []byte { return iwarptest.FixCRC(f) }
	bad("pointer-low", "MPA-8-03 MPA-8-04 MPA-5.2-02",
		"A Marker that disagrees with ULPDU_Length is error 3, if it is looked at",
		"FPDUPTR 4 too small, with a CRC over it",
		func(f []byte, m int) []byte { f[m+3] -= 4; return fix(f) }, disagree, ignored)
	bad("pointer-high", "MPA-8-03 MPA-8-04 MPA-5.2-02",
		"A Marker that disagrees with ULPDU_Length is error 3, if it is looked at",
		"FPDUPTR 4 too large, with a CRC over it",
		func(f []byte, m int) []byte { f[m+3] += 4; return fix(f) }, disagree, ignored)
	bad("pointer-zero", "MPA-8-03 MPA-8-04 MPA-5.2-02",
		"A Marker that disagrees with ULPDU_Length is error 3, if it is looked at",
		"FPDUPTR 0 within an FPDU, with a CRC over it",
		func(f []byte, m int) []byte { f[m+2], f[m+3] = 0, 0; return fix(f) }, disagree, ignored)
	bad("pointer-low-bits", "MPA-4.2-05 MPA-4.2-04", "The low two bits of FPDUPTR count as zero, but for the CRC",
		"FPDUPTR with its low bits set, with a CRC over it",
		func(f []byte, m int) []byte { f[m+3] |= 3; return fix(f) }, ignored)
	bad("reserved", "MPA-4.2-02", "The reserved half of a Marker is ignored, but for the CRC",
		"a Marker with its reserved half beef, with a CRC over it",
		func(f []byte, m int) []byte { f[m], f[m+1] = 0xbe, 0xef; return fix(f) }, ignored)
	bad("crc", "MPA-4.3-01 MPA-4.4-12", "A Marker is covered by the CRC of its FPDU",
		"a Marker with a bit changed, and the old CRC",
		func(f []byte, m int) []byte { f[m] ^= 1; return f }, corrupt, end("RFC 5044 section 8"))
	bad("absent", "MPA-4.3-04 MPA-4.4-12", "A Marker that is due and is not there makes the FPDU invalid",
		"an FPDU without its Marker, filled up with PAD",
		func(f []byte, m int) []byte {
			f = append(f[:m:m], f[m+4:]...)
			return append(f, 0, 0, 0, 0)
		}, corrupt, end("RFC 5044 section 8"))
	return all
}

func (s *session) needMarkers() {
	if !s.p.Out.Markers {
		s.notApplicable("the peer wants no Markers")
	}
}

// toPhase sends empty Writes until the next FPDU starts phase octets behind the
// place of a Marker. That is 4 when a Marker goes before it, between two FPDUs.
func (s *session) toPhase(phase uint64) {
	if phase == 4 {
		phase = 0
	}
	var octets []byte
	n := 0
	for ; s.p.Out.Pos%512 != phase; n++ {
		octets = append(octets, s.p.Out.Frame(iwarptest.Write(0, 0, nil))...) // 20 octets, without a Marker
	}
	if n > 0 {
		s.raw(fmt.Sprintf("%d empty Writes", n), octets)
	}
}
