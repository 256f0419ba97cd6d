package kit

import (
	"encoding/binary"
	"fmt"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// readCases are good Reads, and too many of them.
func readCases() []*Case {
	var all []*Case
	good := func(id, ids, rule string, run func(s *session)) {
		all = append(all, &Case{
			ID: "read/" + id, Rules: rules(ids), Roles: Either, Needs: Target, Level: Good, Rule: rule, Sends: id,
			Legal: legal(carryOn("RFC 5040 section 5.2")),
			run: func(s *session) {
				s.target()
				if s.maxReads == 0 {
					s.notApplicable("the peer serves no Reads (IRD 0)")
				}
				run(s)
				s.bye()
			},
		})
	}
	for _, n := range []uint32{1, 2, 3, 1440, 1441, 1460, 4096, 65535, 65536, 100_001, 262144} {
		good(fmt.Sprintf("size-%d", n),
			"RDMAP-5.2.1-09 RDMAP-4.4-02 RDMAP-5.2.2-01 RDMAP-5.2.2-06 DDP-5.2-01 DDP-5.2-06",
			"A Read Request is answered with all it asks for", func(s *session) {
				r := s.region(advert.Large)
				s.same("what was read", "RFC 5040 section 5.2.1", s.fetch(r, 0, n), content(advert.Large, r.Size)[:n])
			})
	}
	for _, off := range []uint64{1, 4095, 262143} {
		good(fmt.Sprintf("from-%d", off), "RDMAP-4.4-03 RDMAP-5.2.1-08", "A Read may start anywhere", func(s *session) {
			r := s.region(advert.Large)
			s.same("what was read", "RFC 5040 section 5.2.1", s.fetch(r, off, 1),
				content(advert.Large, r.Size)[off:off+1])
		})
	}
	for _, to := range []uint64{1, 1 << 32, ^uint64(0) - 4096} {
		good(fmt.Sprintf("sink-to-%x", to), "RDMAP-4.4-02 RDMAP-4.4-03", "Sink STag and TO come back as they were sent",
			func(s *session) {
				r := s.region(advert.Large)
				x := s.read(0xffffffff, to, 4000, r.STag, r.TO)
				if o, ok := s.pump(s.timeout(), func() bool { return x.complete }); !ok {
					s.fail("the peer %v (RFC 5040 section 5.2.1)", s.close2(o))
				}
				s.same("what was read", "RFC 5040 section 5.2.1", x.data, content(advert.Large, r.Size)[:4000])
			})
	}
	good("as-many-as-ird", "RDMAP-6.1-02 RDMAP-5.2.2-02 RDMAP-5.2.2-04 RDMAP-5.2.1-04 RDMAP-5.5-13 EXT-5.2.2-03",
		"As many Reads as were agreed may be outstanding; they are answered in order", func(s *session) {
			r := s.region(advert.Large)
			var reads []*read
			for i := range s.maxReads {
				reads = append(reads, s.read(uint32(100+i), uint64(i), uint32(1000+i), r.STag, r.TO+uint64(i)))
			}
			for i, x := range reads {
				if o, ok := s.pump(s.timeout(), func() bool { return x.complete }); !ok {
					s.fail("Read %d of %d: the peer %v (RFC 5040 section 6.1)", i+1, len(reads), s.close2(o))
				}
				s.same("what was read", "RFC 5040 section 5.2.2", x.data, content(advert.Large, r.Size)[i:i+1000+i])
			}
		})
	good("after-write", "RDMAP-5.5-06 RDMAP-5.2.1-04", "A Read that follows a Write sees it", func(s *session) {
		r := s.region(advert.All)
		for i := range 20 {
			data := content(byte(i), 100)
			s.send(iwarptest.Write(r.STag, r.TO, data))
			s.same("what was read", "RFC 5040 section 5.5", s.fetch(r, 0, 100), data)
		}
	})
	good("send-while-read", "RDMAP-5.5-11 RDMAP-5.5-07", "Messages flow while a Read is answered", func(s *session) {
		r := s.region(advert.Large)
		x := s.read(5, 0, r.Size, r.STag, r.TO)
		s.echo([]byte("meanwhile"))
		if o, ok := s.pump(s.timeout(), func() bool { return x.complete }); !ok {
			s.fail("the peer %v (RFC 5040 section 5.2.1)", s.close2(o))
		}
	})
	all = append(all, &Case{
		ID: "read/flood", Rules: rules("RDMAP-6.1-05 RDMAP-6.1-02 RDMAP-8.1.1-11 SEC-6.4.3.3-02 DDP-7.1-02"),
		Roles: Either, Needs: Target, Level: Hostile,
		Rule:  "Read Requests beyond what was agreed are not accepted",
		Sends: "Read Requests of 256 KiB, 200 more than were agreed, before the first answer is read",
		Legal: legal(terminate("RFC 5041 section 7.1: no buffer", 0x1202),
			terminate("RFC 5040 section 7.2", 0x0207, 0x02ff), terminate("RFC 5041 section 7.1", 0x1203),
			carryOn("RFC 5040 section 6.1, where answers left as fast as requests came")),
		run: func(s *session) {
			s.target()
			r := s.region(advert.Large)
			var segs [][]byte
			for range s.maxReads + 200 {
				x := &read{stag: 9, size: r.Size}
				s.reads = append(s.reads, x)
				segs = append(segs, iwarptest.ReadRequest(s.msn(1), 9, 0, r.Size, r.STag, r.TO))
			}
			s.push(segs...)
			s.judge()
		},
	})
	return append(all, &Case{
		ID: "read/empty", Rules: rules("RDMAP-5.2.1-10 RDMAP-5.2.1-13 RDMAP-5.2.1-12 DDP-5.2-07"), Roles: Either,
		Level: Good,
		Rule:  "A Read of no octets is answered by one segment of no octets",
		Sends: "20 Read Requests of no octets, one after the other", Legal: legal(carryOn("RFC 5040 section 5.2.1")),
		run: func(s *session) {
			s.open()
			s.wantReads(1)
			for range 20 {
				s.works("a Read of no octets")
			}
			if n := len(s.runs); n > 0 && s.runs[n-1].segments != 1 {
				s.fail("a Read of no octets was answered with %d segments (RFC 5041 section 5.2)", s.runs[n-1].segments)
			}
			s.bye()
		},
	})
}

// atomicCases are those of RFC 7306.
func atomicCases() []*Case {
	var all []*Case
	ids := "EXT-5.1.1-01 EXT-5.2.2-01 EXT-5.2.1-13 EXT-5-02 R44"
	good := func(id, more, rule string, run func(s *session, r advert.Region)) {
		all = append(all, &Case{
			ID: "atomic/" + id, Rules: rules(ids + " " + more), Roles: Either, Needs: Target, Level: Good, Rule: rule,
			Sends: id, Legal: legal(carryOn("RFC 7306 section 5")),
			run: func(s *session) {
				s.target()
				run(s, s.region(advert.All))
				s.works("after atomics")
				s.bye()
			},
		})
	}
	const all1 = ^uint64(0)
	good("fetch-add", "EXT-5.2.1-12 EXT-5.4-03", "FetchAdd gives what was there and adds",
		func(s *session, r advert.Region) {
			was := s.atomic(iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO, 5, 0), 1)
			if now := s.atomic(iwarptest.FetchAdd(s.msn(1), 2, r.STag, r.TO, 0, 0), 2); now != was+5 {
				s.fail("after FetchAdd of 5 to %#x the word is %#x (RFC 7306 section 5.1.1)", was, now)
			}
		})
	good("fetch-add-wraps", "", "FetchAdd drops the carry out of 64 bits", func(s *session, r advert.Region) {
		was := s.atomic(iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO+8, all1, 0), 1)
		if now := s.atomic(iwarptest.FetchAdd(s.msn(1), 2, r.STag, r.TO+8, 0, 0), 2); now != was-1 {
			s.fail("after FetchAdd of 2^64-1 to %#x the word is %#x (RFC 7306 section 5.1.1)", was, now)
		}
	})
	good("fetch-add-fields", "", "A mask bit is the top bit of a field, whose carry is dropped",
		func(s *session, r advert.Region) {
			const mask = 1<<31 | 1<<63
			start := s.atomic(iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO+16, 0, 0), 1)
			s.atomic(iwarptest.FetchAdd(s.msn(1), 2, r.STag, r.TO+16, 0xfffffffe_ffffffff, mask), 2)
			want := uint64(uint32(start)+0xffffffff) | uint64(uint32(start>>32)+0xfffffffe)<<32
			if now := s.atomic(iwarptest.FetchAdd(s.msn(1), 3, r.STag, r.TO+16, 0, 0), 3); now != want {
				s.fail("a FetchAdd in two fields of 32 bits makes %#x of %#x, want %#x (RFC 7306 section 5.1.1)", now,
					start, want)
			}
		})
	good("cmp-swap", "EXT-5.1.2-01 EXT-5.2.1-04", "CmpSwap swaps if the word is as compared",
		func(s *session, r advert.Region) {
			was := s.atomic(iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO, 0, 0), 1)
			if got := s.atomic(iwarptest.CmpSwap(s.msn(1), 2, r.STag, r.TO, was, 42), 2); got != was {
				s.fail("CmpSwap gives %#x, the word was %#x (RFC 7306 section 5.1.2)", got, was)
			}
			if got := s.atomic(iwarptest.CmpSwap(s.msn(1), 3, r.STag, r.TO, was, 43), 3); got != 42 {
				s.fail("after CmpSwap to 42 the word is %#x (RFC 7306 section 5.1.2)", got)
			}
			if got := s.atomic(iwarptest.FetchAdd(s.msn(1), 4, r.STag, r.TO, 0, 0), 4); got != 42 {
				s.fail("a CmpSwap that does not match has changed the word to %#x (RFC 7306 section 5.1.2)", got)
			}
		})
	good("cmp-swap-masks", "EXT-5.1.2-01", "CmpSwap compares and swaps the bits of its masks alone",
		func(s *session, r advert.Region) {
			was := s.atomic(iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO, 0, 0), 1)
			s.atomic(iwarptest.AtomicRequest(s.msn(1), 2, 2, r.STag, r.TO, ^was, 0xff00, was^0xff, ^uint64(0xff)), 2)
			want := was&^0xff00 | ^was&0xff00
			if got := s.atomic(iwarptest.FetchAdd(s.msn(1), 3, r.STag, r.TO, 0, 0), 3); got != want {
				s.fail("a CmpSwap with masks makes %#x of %#x, want %#x (RFC 7306 section 5.1.2)", got, was, want)
			}
		})
	good("fetch-add-ignores-compare", "EXT-5.2.1-03", "Compare Data and Mask of a FetchAdd are ignored",
		func(s *session, r advert.Region) {
			was := s.atomic(iwarptest.AtomicRequest(s.msn(1), 0, 1, r.STag, r.TO, 1, 0, 7, 7), 1)
			if got := s.atomic(iwarptest.FetchAdd(s.msn(1), 2, r.STag, r.TO, 0, 0), 2); got != was+1 {
				s.fail("a FetchAdd of 1 makes %#x of %#x (RFC 7306 section 5.2.1)", got, was)
			}
		})
	good("reserved", "EXT-5.2.1-02", "The reserved bits of an Atomic Request are ignored",
		func(s *session, r advert.Region) {
			seg := iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO, 0, 0)
			seg[18], seg[19], seg[20] = 0xff, 0xff, 0xff
			seg[21] |= 0xf0
			s.atomic(seg, 1)
		})
	good("among-reads", "EXT-5.4-06 EXT-7-01 EXT-5.2-01", "Reads and atomics are done, and answered, in one order",
		func(s *session, r advert.Region) {
			s.wantReads(3)
			was := s.atomic(iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO, 0, 0), 1)
			n := len(s.atomics)
			x := s.read(3, 0, 8, r.STag, r.TO)
			s.send(iwarptest.FetchAdd(s.msn(1), 2, r.STag, r.TO, 1, 0))
			y := s.read(4, 0, 8, r.STag, r.TO)
			if o, ok := s.pump(s.timeout(), func() bool { return y.complete && len(s.atomics) > n }); !ok {
				s.fail("the peer %v (RFC 7306 section 5.4)", s.close2(o))
			}
			if string(x.data) == string(y.data) {
				s.fail("Reads before and after a FetchAdd of 1 to %#x give the same %x (RFC 7306 section 7)", was,
					x.data)
			}
		})
	return append(all, badAtomics()...)
}

// atomic does an atomic and gives what was there.
func (s *session) atomic(seg []byte, id uint32) uint64 {
	n := len(s.atomics)
	s.send(seg)
	o, ok := s.pump(s.timeout(), func() bool { return len(s.atomics) > n })
	switch {
	case !ok && o.kind == terminates && (o.code == 0x0206 || o.code == 0x1201):
		s.notApplicable("the peer does not do RFC 7306: it %v", s.close2(o))
	case !ok:
		s.fail("an atomic: the peer %v (RFC 7306 section 5.2.1)", s.close2(o))
	}
	data := s.atomics[n].data
	if got := binary.BigEndian.Uint32(data); got != id {
		s.fail("the Atomic Response has the identifier %d, %d was asked (RFC 7306 section 5.2.2)", got, id)
	}
	return binary.BigEndian.Uint64(data[4:])
}

func badAtomics() []*Case {
	var all []*Case
	unsupported := terminate("RFC 5040 section 7.2, where RFC 7306 is not done", 0x0206)
	bad := func(id, ids, rule string, seg func(s *session) []byte, answers ...Answer) {
		all = append(all, segmentCase{
			id: "atomic/bad-" + id, ids: ids, needs: Target, level: Hostile, rule: rule,
			sends: "an Atomic Request: " + id, legal: append(answers, unsupported), segments: one(seg),
		}.build())
	}
	for _, p := range places() {
		if p.read == nil {
			continue
		}
		answers := append(legal(), p.read...)
		answers = append(answers, terminate("RFC 7306 section 8.2, where the alignment is checked first", 0x0207))
		if p.kind == advert.ReadWrite || p.kind == advert.Write {
			answers = append(answers, terminate("RFC 5040 section 7.2, where the right is checked first", 0x0102))
		}
		if p.size == 1 || p.size == 10 || p.size == 2 {
			bad(p.id, p.ids+" EXT-8.2-01 EXT-5.1.2-02", p.rule, func(s *session) []byte {
				return iwarptest.FetchAdd(s.msn(1), 1, p.stag(s), p.to(s.region(p.kind)), 1, 0)
			}, answers...)
		}
	}
	right := terminate("RFC 5040 section 7.2", 0x0102)
	for _, kind := range []int{advert.Read, advert.ReadWrite} {
		bad(fmt.Sprintf("no-right-%d", kind), "DDP-8.3.1-04 EXT-5.1.2-02", "Without the right there is no atomic",
			func(s *session) []byte {
				r := s.region(kind)
				return iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO, 1, 0)
			}, right, carryOn("RFC 7306 section 5: it names no right for atomics; read and write may do"))
	}
	unaligned := terminate("RFC 7306 section 8.2", 0x0207)
	for off := uint64(1); off < 8; off++ {
		bad(fmt.Sprintf("unaligned-%d", off), "EXT-5.1.1-02 EXT-5.2.1-05 EXT-8.2-04 EXT-8.2-05",
			"The target of an atomic is aligned", func(s *session) []byte {
				r := s.region(advert.All)
				if off%2 == 0 {
					return iwarptest.CmpSwap(s.msn(1), 1, r.STag, r.TO+off, 0, 1)
				}
				return iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO+off, 1, 0)
			}, unaligned)
	}
	bad("unaligned-memory", "EXT-5.2.1-05", "It is the memory that must be aligned, not TO alone",
		func(s *session) []byte {
			r := s.region(advert.Odd)
			return iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO, 1, 0)
		}, unaligned, terminate("RFC 5040 section 7.2, of an endpoint without atomics in such memory", 0x0102))
	bad("across-end-by-4", "EXT-8.2-01 DDP-8.3.1-03", "Access stays within the region", func(s *session) []byte {
		r := s.region(advert.All)
		return iwarptest.FetchAdd(s.msn(1), 1, r.STag, r.TO+uint64(r.Size)-4, 1, 0)
	}, terminate("RFC 5040 section 7.2", 0x0101), unaligned)
	for _, op := range []uint8{1, 3, 15} {
		bad(fmt.Sprintf("operation-%d", op), "EXT-5.2.1-10 EXT-5.2.1-04", "AOpCodes are 0 and 2",
			func(s *session) []byte {
				r := s.region(advert.All)
				return iwarptest.AtomicRequest(s.msn(1), op, 1, r.STag, r.TO, 1, 0, 0, 0)
			}, terminate("RFC 7306 section 5.2.1: no code is meant for it", 0x0206, 0x0207, 0x02ff))
	}
	return all
}

// demand makes the peer read from the kit: size octets. It gives the Read Request.
func (s *session) demand(size uint32) (stag uint32, to uint64) {
	const source, at = 0x00abcd01, 0x123456789
	if s.k.o.ULP == Target {
		s.post('R', u32(source), u64(at), u32(size))
	} else {
		s.send(iwarptest.Send(s.msn(0), append(append(u64(at), u32(source)...), u32(size)...)))
	}
	n := len(s.asked)
	o, ok := s.pump(s.timeout(), func() bool { return len(s.asked) > n })
	if !ok {
		s.fail("the peer %v, where its Read Request is due", s.close2(o))
	}
	m := s.asked[n]
	if m.op != 1 {
		s.fail("the peer sends opcode %d, where its Read Request is due", m.op)
	}
	be := binary.BigEndian
	if got := be.Uint32(m.data[12:]); got != size {
		s.fail("the peer reads %d octets of %d (RFC 5040 section 4.4)", got, size)
	}
	if be.Uint32(m.data[16:]) != source || be.Uint64(m.data[20:]) != at {
		s.fail("the peer reads from STag %08x, TO %#x: it was told %08x, %#x (RFC 5040 section 4.4)",
			be.Uint32(m.data[16:]), be.Uint64(m.data[20:]), uint32(source), uint64(at))
	}
	return be.Uint32(m.data), be.Uint64(m.data[4:])
}

// responseCases answer the peer's Reads, right and wrong.
func responseCases() []*Case {
	var all []*Case
	const size = 48
	data := content(85, size)
	add := func(id, ids, rule, sends string, level Level, answer func(s *session, stag uint32, to uint64) [][]byte,
		answers ...Answer,
	) {
		all = append(all, &Case{
			ID: "response/" + id, Rules: rules(ids), Roles: Either, Needs: Rping, Level: level, Rule: rule,
			Sends: sends, Legal: answers,
			run: func(s *session) {
				s.open()
				if s.k.o.ULP == Target {
					s.awaitAdvert()
				}
				stag, to := s.demand(size)
				s.send(answer(s, stag, to)...)
				if s.k.o.ULP == Target && level == Good {
					s.same("the CRC32c of what the peer has read", "RFC 5040 section 5.2.2", s.answer('R'),
						u32(advert.Checksum(data)))
				}
				s.judge()
			},
		})
	}
	whole := func(stag uint32, to uint64) []byte { return iwarptest.ReadResponse(stag, to, data) }
	on := carryOn("RFC 5040 section 5.2.2")
	add("good", "RDMAP-5.2.2-03 RDMAP-5.5-05", "A Response completes the Read", "a good Read Response", Good,
		func(_ *session, stag uint32, to uint64) [][]byte { return [][]byte{whole(stag, to)} }, on)
	add("good-segments", "RDMAP-5.2.2-03 DDP-5.2-06", "A Response may be cut at any octet",
		"a Read Response in segments of one octet", Good,
		func(_ *session, stag uint32, to uint64) [][]byte {
			var segs [][]byte
			for i := range data {
				segs = append(segs, iwarptest.Tagged(2, i == size-1, stag, to+uint64(i), data[i:i+1]))
			}
			return segs
		}, on)
	stray := terminate("RFC 5041 section 7.1, RFC 5040 section 7.2: the RFCs name no code", 0x1100, 0x1101, 0x1102,
		0x0206, 0x0207, 0x02ff, 0x1202)
	bounds := terminate("RFC 5041 section 7.1", 0x1101, 0x1100, 0x1103)
	shortened := terminate("RFC 5040 section 5.2.2: no code is meant for it", 0x02ff, 0x0207, 0x0206, 0x1101, 0x1100)
	unchecked := carryOn("RFC 5040 section 5.2.2: the sink need not check")
	bad := func(id, ids, rule, sends string, answer func(s *session, stag uint32, to uint64) [][]byte,
		answers ...Answer,
	) {
		add(id, ids, rule, sends, Crasher, answer, append(answers, end("RFC 5040 section 6.2"))...)
	}
	seg := func(f func(stag uint32, to uint64) []byte) func(*session, uint32, uint64) [][]byte {
		return func(_ *session, stag uint32, to uint64) [][]byte { return [][]byte{f(stag, to)} }
	}
	const rule = "A Response goes into the sink of its Read, and nowhere else"
	const r1, r2 = "RDMAP-5.2.2-05 RDMAP-5.2.2-06 DDP-7.1-09", "DDP-7.1-07 RDMAP-5.2.2-05"
	bad("another-stag", r2, rule, "a Response to another STag",
		seg(func(stag uint32, to uint64) []byte { return whole(stag^0x100, to) }), stray)
	bad("stag-0", r2, rule, "a Response to STag 0", seg(func(_ uint32, to uint64) []byte { return whole(0, to) }),
		stray)
	bad("wrong-key", r2, rule, "a Response to the STag with another key",
		seg(func(stag uint32, to uint64) []byte { return whole(stag^1, to) }), stray)
	bad("overrun-1", r1, rule, "a Response one octet too long", seg(func(stag uint32, to uint64) []byte {
		return iwarptest.ReadResponse(stag, to, append(content(85, size), 1))
	}), bounds)
	bad("overrun-far", r1, rule, "a Response of 60000 octets",
		seg(func(stag uint32, to uint64) []byte { return iwarptest.ReadResponse(stag, to, make([]byte, 60000)) }),
		bounds)
	bad("overrun-second-segment", r1+" R38", rule, "a Response whose second segment goes beyond the sink",
		func(_ *session, stag uint32, to uint64) [][]byte {
			return [][]byte{
				iwarptest.Tagged(2, false, stag, to, data), iwarptest.Tagged(2, true, stag, to+size, []byte{1}),
			}
		}, bounds)
	bad("shifted", r1, rule, "a Response that starts one octet late and goes beyond the sink",
		seg(func(stag uint32, to uint64) []byte { return whole(stag, to+1) }), bounds)
	bad("before", r1, rule, "a Response that starts before the sink",
		seg(func(stag uint32, to uint64) []byte { return whole(stag, to-1) }), bounds)
	bad("wrap", "DDP-7.1-10", rule, "a Response whose TO wraps",
		seg(func(stag uint32, _ uint64) []byte { return whole(stag, ^uint64(0)) }), bounds)
	bad("short", "RDMAP-5.2.1-09 RDMAP-5.2.2-05", "A Response gives what was asked for", "a Response one octet short",
		seg(func(stag uint32, to uint64) []byte { return iwarptest.ReadResponse(stag, to, data[:size-1]) }), shortened,
		unchecked)
	bad("empty", "RDMAP-5.2.1-09 RDMAP-5.2.2-05", "A Response gives what was asked for", "an empty Response",
		seg(func(stag uint32, to uint64) []byte { return iwarptest.ReadResponse(stag, to, nil) }), shortened, unchecked)
	bad("as-write", "DDP-7.1-08 R42", "The sink of a Read need not be open for Writes", "a Write to the sink",
		seg(func(stag uint32, to uint64) []byte { return iwarptest.Write(stag, to, data) }), stray,
		terminate("RFC 5040 section 7.2", 0x0102), carryOn("RFC 5040 section 5.2: iWARP sinks may be open for Writes"))
	bad("twice", "RDMAP-5.2.2-05 DDP-5.3-05", "A Read is answered once", "two good Responses to one Read",
		func(_ *session, stag uint32, to uint64) [][]byte {
			return [][]byte{whole(stag, to), whole(stag, to)}
		}, stray, shortened)
	bad("as-atomic-response", "EXT-5.2.2-06 EXT-5-05", "A Read is answered by a Read Response",
		"an Atomic Response to a Read", seg(func(uint32, uint64) []byte { return iwarptest.AtomicResponse(1, 1, 0) }),
		stray, terminate("RFC 5041 section 7.1", 0x1201))
	bad("untagged", "RDMAP-5.2.2-01 RDMAP-4.1-04", "A Read Response is tagged", "an untagged Read Response",
		func(s *session, _ uint32, _ uint64) [][]byte {
			return [][]byte{iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 2, Last: true, MSN: s.next[0]}, data)}
		}, terminate("RFC 5040 section 7.2", 0x0206), stray, terminate("RFC 5041 section 7.1", 0x1205))
	for _, how := range []string{"fin", "reset"} {
		all = append(all, readEnds(how, 0, data), readEnds(how, 20, data))
	}
	for _, n := range []int{0, 5} {
		all = append(all, segmentCase{
			id: fmt.Sprintf("response/stray-%d", n), ids: "RDMAP-5.2.2-05 DDP-7.1-07 RDMAP-7.2-02", level: Crasher,
			rule: "A Response that nobody asked for is an error", sends: fmt.Sprintf("a Read Response of %d octets", n),
			segments: one(func(*session) []byte { return iwarptest.ReadResponse(0x12345678, 0, make([]byte, n)) }),
			legal:    legal(stray, end("RFC 5040 section 6.2")),
		}.build())
	}
	return append(all, atomicResponses()...)
}

// readEnds ends the connection while the peer waits for a Response, of which n
// octets have come.
func readEnds(how string, n int, data []byte) *Case {
	answers := legal(end("RFC 5041 section 6.2.1"), terminate("RFC 5040 section 6.2.1"))
	if how == "reset" {
		answers = nil
	}
	return &Case{
		ID:    fmt.Sprintf("response/%s-after-%02d", how, n),
		Rules: rules("RDMAP-5.4-06 DDP-6.2.2-01 DDP-6.2.2-02 MPA-8-01"), Roles: Either, Needs: Rping, Level: Hostile,
		Rule:  "A Read whose Response never ends is over when the connection is",
		Sends: fmt.Sprintf("%d octets of a Response, then %s", n, how), Legal: answers,
		run: func(s *session) {
			s.open()
			if s.k.o.ULP == Target {
				s.awaitAdvert()
			}
			stag, to := s.demand(uint32(len(data)))
			if n > 0 {
				s.send(iwarptest.Tagged(2, false, stag, to, data[:n]))
			}
			if how == "reset" {
				_ = s.p.Reset()
				return
			}
			s.p.CloseWrite()
			s.judgeEnd(s.k.o.Patience)
		},
	}
}

// atomicResponses answer the target's atomics.
func atomicResponses() []*Case {
	var all []*Case
	add := func(id, ids, rule string, level Level, answer func(s *session, request uint32) []byte, answers ...Answer) {
		all = append(all, &Case{
			ID: "response/atomic-" + id, Rules: rules(ids), Roles: Either, Needs: Target, Level: level, Rule: rule,
			Sends: "an Atomic Response: " + id, Legal: answers,
			run: func(s *session) {
				s.target()
				s.post('A', u32(7), u64(8), u64(9))
				if o, ok := s.pump(s.timeout(), func() bool { return len(s.asked) > 0 }); !ok {
					s.fail("the peer %v, where its Atomic Request is due", s.close2(o))
				}
				m := s.asked[0]
				be := binary.BigEndian
				if m.op != 10 || be.Uint32(m.data[8:]) != 7 || be.Uint64(m.data[12:]) != 8 ||
					be.Uint64(m.data[20:]) != 9 || be.Uint32(m.data) != 0 {
					s.fail("the peer sends opcode %d, %x, where FetchAdd of 9 at STag 7, TO 8 is due (RFC 7306 "+
						"section 5.2.1)",
						m.op, m.data)
				}
				s.send(answer(s, be.Uint32(m.data[4:])))
				if level == Good {
					s.same("the original value", "RFC 7306 section 5.2.2", s.answer('A'), u64(0x1122334455667788))
				}
				s.judge()
			},
		})
	}
	add("good", "EXT-5.2.2-05 EXT-5.2.1-01 EXT-5.2.1-03 EXT-5.4-05", "An Atomic Response completes the atomic", Good,
		func(_ *session, id uint32) []byte {
			return iwarptest.AtomicResponse(1, id, 0x1122334455667788)
		}, carryOn("RFC 7306 section 5.2.2"))
	wrong := terminate("RFC 7306 section 5.2.2: no code is meant for it", 0x02ff, 0x0206, 0x0207, 0x1205, 0x1202,
		0x1100, 0x1000)
	add("other-identifier", "EXT-5.2.2-06 EXT-5-05", "The identifier is that of the request", Crasher,
		func(_ *session, id uint32) []byte { return iwarptest.AtomicResponse(1, id+1, 0) }, wrong,
		carryOn("RFC 7306 section 5: the requester finds its request by MSN"))
	add("short", "EXT-5.2.2-01 EXT-5.2.2-06", "An Atomic Response has 12 octets", Crasher,
		func(*session, uint32) []byte {
			return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 11, Last: true, QN: 3, MSN: 1},
				make([]byte, 11))
		}, wrong)
	add("long", "EXT-5.2.2-01 EXT-5.2.2-06", "An Atomic Response has 12 octets", Crasher,
		func(*session, uint32) []byte {
			return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 11, Last: true, QN: 3, MSN: 1}, make([]byte, 13))
		}, wrong)
	add("msn-2", "EXT-5-05 DDP-7.1-06", "MSNs of queue 3 count up from 1", Crasher,
		func(_ *session, id uint32) []byte { return iwarptest.AtomicResponse(2, id, 0) }, wrong,
		terminate("RFC 5041 section 7.1", 0x1203))
	add("as-read-response", "EXT-5.2.2-02 EXT-5.2.2-06", "An atomic is answered by an Atomic Response", Crasher,
		func(*session, uint32) []byte { return iwarptest.ReadResponse(7, 0, make([]byte, 8)) }, wrong)
	return all
}
