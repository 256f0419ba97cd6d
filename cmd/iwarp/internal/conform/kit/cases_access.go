package kit

import (
	"fmt"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// place is where a tagged access goes, and what must come of it.
type place struct {
	id, ids, rule string
	stag          func(s *session) uint32
	to            func(r advert.Region) uint64
	kind          int
	size          uint32
	write, read   []Answer // nil: not tried
}

// places are bad accesses, for Writes, Reads and atomics alike.
func places() []place {
	const ddp, rdmap = "RFC 5041 section 7.1", "RFC 5040 section 7.2"
	ofKind := func(kind int, change func(uint32) uint32) func(s *session) uint32 {
		return func(s *session) uint32 { return change(s.region(kind).STag) }
	}
	id := func(v uint32) uint32 { return v }
	noSTag := [2][]Answer{legal(terminate(ddp, 0x1100)), legal(terminate(rdmap, 0x0100))}
	foreign := [2][]Answer{legal(terminate(ddp, 0x1102, 0x1100)), legal(terminate(rdmap, 0x0103, 0x0100))}
	right := [2][]Answer{
		legal(terminate("RFC 5041 section 7.1: DDP has no code for rights", 0x1100, 0x1102), terminate(rdmap, 0x0102)),
		legal(terminate(rdmap, 0x0102)),
	}
	bounds := [2][]Answer{legal(terminate(ddp, 0x1101)), legal(terminate(rdmap, 0x0101))}
	wrap := [2][]Answer{legal(terminate(ddp, 0x1103, 0x1101)), legal(terminate(rdmap, 0x0104, 0x0101))}
	start := func(r advert.Region) uint64 { return r.TO }
	const sec = "DDP-7.1-07 RDMAP-7.2-06"
	const rights = "DDP-7.1-08 DDP-8.3.1-04 RDMAP-7.2-11 RDMAP-8.1.1-05 R46"
	const limits = "DDP-7.1-09 DDP-8.3.1-03 RDMAP-7.2-08 RDMAP-7.2-09 RDMAP-8.1.1-03 SEC-6.2.1-01"
	all := []place{
		{
			id: "stag-0", ids: sec, rule: "The STag must be valid", stag: func(*session) uint32 { return 0 },
			kind: advert.All, to: start, size: 10, write: noSTag[0], read: noSTag[1],
		},
		{
			id: "stag-all-ones", ids: sec, rule: "The STag must be valid",
			stag: func(*session) uint32 { return 1<<32 - 1 }, kind: advert.All, to: start, size: 10, write: noSTag[0],
			read: noSTag[1],
		},
		{
			id: "stag-wrong-key", ids: sec, rule: "The key of an STag must be right",
			stag: ofKind(advert.All, func(v uint32) uint32 { return v ^ 1 }), kind: advert.All, to: start, size: 10,
			write: noSTag[0], read: noSTag[1],
		},
		{
			id: "stag-wrong-key-7", ids: sec, rule: "The key of an STag must be right",
			stag: ofKind(advert.All, func(v uint32) uint32 { return v ^ 0x80 }), kind: advert.All, to: start, size: 10,
			write: noSTag[0], read: noSTag[1],
		},
		{
			id: "stag-wrong-index", ids: sec, rule: "The index of an STag must be right",
			stag: ofKind(advert.All, func(v uint32) uint32 { return v ^ 0x4000 }), kind: advert.All, to: start,
			size: 10, write: noSTag[0], read: noSTag[1],
		},
		{
			id: "stag-gone", ids: sec + " DDP-8.3-02 DDP-8.3.1-05 RDMAP-8.1.1-06 SEC-6.2.2-02",
			rule: "An STag that was closed is not valid", stag: ofKind(advert.Gone, id), kind: advert.Gone, to: start,
			size: 10, write: noSTag[0], read: noSTag[1],
		},
		{
			id: "foreign-domain", ids: "DDP-8.2-02 DDP-8.3.1-01 RDMAP-7.2-07 RDMAP-8.1.1-01 SEC-6.1.1-02",
			rule: "An STag of another protection domain is not reached", stag: ofKind(advert.Foreign, id),
			kind: advert.Foreign, to: start, size: 10, write: foreign[0], read: foreign[1],
		},
		{
			id: "no-right", ids: rights, rule: "Without a right there is no access", stag: ofKind(advert.None, id),
			kind: advert.None, to: start, size: 10, write: right[0], read: right[1],
		},
		{
			id: "read-only", ids: rights, rule: "A region without the right to write is not written",
			stag: ofKind(advert.Read, id), kind: advert.Read, to: start, size: 10, write: right[0],
		},
		{
			id: "write-only", ids: rights + " SEC-6.3.5-01", rule: "A region without the right to read is not read",
			stag: ofKind(advert.Write, id), kind: advert.Write, to: start, size: 10, read: right[1],
		},
	}
	at := func(id string, kind int, size uint32, to func(r advert.Region) uint64) {
		all = append(all,
			place{
				id: id, ids: limits, rule: "Access stays within the region",
				stag: ofKind(kind, func(v uint32) uint32 { return v }), kind: kind, to: to, size: size,
				write: bounds[0], read: bounds[1],
			})
	}
	at("before", advert.All, 1, func(r advert.Region) uint64 { return r.TO - 1 })
	at("across-start", advert.All, 10, func(r advert.Region) uint64 { return r.TO - 5 })
	at("to-0", advert.All, 10, func(advert.Region) uint64 { return 0 })
	at("across-end", advert.All, 10, func(r advert.Region) uint64 { return r.TO + uint64(r.Size) - 9 })
	at("at-end", advert.All, 1, func(r advert.Region) uint64 { return r.TO + uint64(r.Size) })
	at("far", advert.All, 10, func(r advert.Region) uint64 { return r.TO + 1<<40 })
	at("high-32-bits", advert.ReadWrite, 10, func(r advert.Region) uint64 { return r.TO + 1<<32 })
	at("cross-32-bits-end", advert.ReadWrite, 2048, func(r advert.Region) uint64 { return r.TO + 2049 })
	at("larger-than-region", advert.All, 4097, func(r advert.Region) uint64 { return r.TO })
	at("high-region-across-end", advert.High, 10, func(r advert.Region) uint64 { return r.TO + uint64(r.Size) - 9 })
	for _, w := range []struct {
		id   string
		to   uint64
		size uint32
	}{
		{id: "wrap-1", to: ^uint64(0), size: 2},
		{id: "wrap-10", to: ^uint64(0) - 8, size: 10},
		{id: "wrap-4096", to: ^uint64(0) - 100, size: 4096},
	} {
		for _, kind := range []int{advert.All, advert.High} {
			id := w.id
			if kind == advert.High {
				id += "-high-region"
			}
			all = append(all, place{
				id: id, ids: "DDP-7.1-10 RDMAP-7.2-10 RDMAP-8.1.1-03", rule: "TO and length do not wrap",
				stag: ofKind(kind, func(v uint32) uint32 { return v }), kind: kind,
				to: func(advert.Region) uint64 { return w.to }, size: w.size, write: wrap[0], read: wrap[1],
			})
		}
	}
	return all
}

// accessCases are Writes and Reads of each place, and good ones at the edges.
func accessCases() []*Case {
	var all []*Case
	for _, p := range places() {
		if p.write != nil {
			all = append(all, segmentCase{
				id: "access/write-" + p.id, ids: p.ids + " DDP-7.1-11", needs: Target, level: Hostile, rule: p.rule,
				sends: fmt.Sprintf("a Write of %d octets: %s", p.size, p.id), legal: p.write,
				segments: one(func(s *session) []byte {
					return iwarptest.Write(p.stag(s), p.to(s.region(p.kind)), make([]byte, p.size))
				}),
			}.build())
			all = append(all, segmentCase{
				id: "access/empty-write-" + p.id, ids: "DDP-5.2-08 RDMAP-5.1-04 R17", needs: Target, level: Hostile,
				rule:  "STag and TO of an empty Write are not checked",
				sends: "an empty Write: " + p.id, legal: legal(carryOn("RFC 5041 section 5.2")),
				segments: one(func(s *session) []byte {
					return iwarptest.Write(p.stag(s), p.to(s.region(p.kind)),
						nil)
				}),
			}.build())
		}
		if p.read != nil {
			all = append(all, segmentCase{
				id: "access/read-" + p.id, ids: p.ids + " RDMAP-5.2.1-11", needs: Target, level: Hostile, rule: p.rule,
				sends: fmt.Sprintf("a Read Request of %d octets: %s", p.size, p.id), legal: p.read,
				segments: one(func(s *session) []byte {
					return iwarptest.ReadRequest(s.msn(1), 1, 0, p.size, p.stag(s), p.to(s.region(p.kind)))
				}),
			}.build(), segmentCase{
				id: "access/empty-read-" + p.id, ids: "RDMAP-5.2.1-12 RDMAP-5.2.1-13 RDMAP-5.2.1-10 R17 SEC-6.3.5-01",
				needs: Target, level: Hostile, rule: "The source of an empty Read is not checked",
				sends: "a Read Request of no octets: " + p.id, legal: legal(carryOn("RFC 5040 section 5.2.1")),
				segments: one(func(s *session) []byte {
					s.reads = append(s.reads, &read{stag: 0x77})
					return iwarptest.ReadRequest(s.msn(1), 0x77, 0, 0, p.stag(s), p.to(s.region(p.kind)))
				}),
			}.build())
		}
	}
	return append(append(all, anySTag()...), goodAccess()...)
}

// anySTag are the accesses that need nothing of the program: no STag is known.
func anySTag() []*Case {
	var all []*Case
	for _, stag := range []uint32{0, 1, 0x100, 0xdeadbeef, 1<<32 - 1} {
		for _, n := range []int{1, 1000} {
			all = append(all, segmentCase{
				id: fmt.Sprintf("access/any-write-%08x-%d", stag, n), ids: "DDP-7.1-07 DDP-8.3-04", level: Hostile,
				rule: "The STag must be valid", sends: fmt.Sprintf("a Write of %d octets to the STag %08x", n, stag),
				segments: one(func(*session) []byte { return iwarptest.Write(stag, 0, make([]byte, n)) }),
				legal:    legal(terminate("RFC 5041 section 7.1", 0x1100, 0x1102)),
			}.build())
		}
		for _, n := range []uint32{1, 1<<32 - 1} {
			all = append(all, segmentCase{
				id: fmt.Sprintf("access/any-read-%08x-%d", stag, n), ids: "RDMAP-7.2-06 RDMAP-5.2.1-11 RDMAP-4.4-04",
				level: Hostile, rule: "The source STag must be valid",
				sends:    fmt.Sprintf("a Read Request of %d octets from the STag %08x", n, stag),
				segments: one(func(s *session) []byte { return iwarptest.ReadRequest(s.msn(1), 1, 0, n, stag, 0) }),
				legal:    legal(terminate("RFC 5040 section 7.2", 0x0100, 0x0103)),
			}.build())
		}
	}
	return all
}

func goodAccess() []*Case {
	var all []*Case
	good := func(id, ids, rule string, run func(s *session)) {
		all = append(all, &Case{
			ID: "access/" + id, Rules: rules(ids), Roles: Either, Needs: Target, Level: Good, Rule: rule, Sends: id,
			Legal: legal(carryOn("RFC 5040 section 5")),
			run: func(s *session) {
				s.target()
				run(s)
				s.works("after good accesses")
				s.bye()
			},
		})
	}
	for _, kind := range []int{advert.All, advert.ReadWrite, advert.Shared, advert.High, advert.Odd} {
		for _, e := range []struct {
			id   string
			off  func(size uint32) uint64
			size uint32
		}{
			{id: "first-octet", off: func(uint32) uint64 { return 0 }, size: 1},
			{id: "last-octet", off: func(n uint32) uint64 { return uint64(n - 1) }, size: 1},
			{id: "all", off: func(uint32) uint64 { return 0 }, size: 4096},
		} {
			good(fmt.Sprintf("good-region-%d-%s", kind, e.id), "RDMAP-5.1-03 RDMAP-5.2.1-08 DDP-5.2-06 DDP-8.3-01",
				"A region is reached from its first octet to its last", func(s *session) {
					r := s.region(kind)
					data := content(84, e.size)
					off := e.off(r.Size)
					s.send(iwarptest.Write(r.STag, r.TO+off, data))
					want := content(byte(kind), r.Size)
					copy(want[off:], data)
					s.same("the region after the Write", "RFC 5040 section 5.1", s.fetch(r, 0, r.Size), want)
				})
		}
	}
	good("write-only", "DDP-8.3.1-04 RDMAP-8.1.1-05", "The right to write is enough to write", func(s *session) {
		r := s.region(advert.Write)
		s.send(iwarptest.Write(r.STag, r.TO, make([]byte, 100)))
	})
	good("read-only", "DDP-8.3.1-04 RDMAP-8.1.1-05", "The right to read is enough to read", func(s *session) {
		r := s.region(advert.Read)
		s.same("the region", "RFC 5040 section 5.2.1", s.fetch(r, 0, r.Size), content(advert.Read, r.Size))
	})
	bad := func(id, ids, rule, sends string, segments func(s *session) [][]byte, answers ...Answer) {
		c := segmentCase{
			id: "access/" + id, ids: ids, needs: Target, level: Hostile, rule: rule, sends: sends, legal: answers,
			segments: segments,
		}.build()
		run := c.run
		c.run = func(s *session) {
			s.placed = true // the good segments before it are
			run(s)
		}
		all = append(all, c)
	}
	bad("second-segment-bounds", "DDP-7.1-09 R38", "Each segment is checked",
		"a Write whose second segment is out of bounds", func(s *session) [][]byte {
			r := s.region(advert.All)
			return [][]byte{
				iwarptest.Tagged(0, false, r.STag, r.TO, make([]byte, 10)),
				iwarptest.Tagged(0, true, r.STag, r.TO+uint64(r.Size)-5, make([]byte, 10)),
			}
		}, terminate("RFC 5041 section 7.1", 0x1101))
	bad("second-segment-stag", "DDP-7.1-07 DDP-4.2-05 R38", "Each segment is checked",
		"a Write whose second segment has another STag, without the right", func(s *session) [][]byte {
			r, ro := s.region(advert.All), s.region(advert.Read)
			return [][]byte{
				iwarptest.Tagged(0, false, r.STag, r.TO, make([]byte, 10)),
				iwarptest.Tagged(0, true, ro.STag, ro.TO, make([]byte, 10)),
			}
		}, terminate("RFC 5041 section 7.1", 0x1100, 0x1102), terminate("RFC 5040 section 7.2", 0x0102))
	bad("after-an-error", "DDP-7.1-13 DDP-7.1-11 RDMAP-7.1-05",
		"After an error nothing is placed, and the first error is the one reported",
		"a Write to a bad STag, then one to a good one", func(s *session) [][]byte {
			s.placed = false
			r := s.region(advert.All)
			return [][]byte{
				iwarptest.Write(0, 0, make([]byte, 10)), iwarptest.Write(r.STag, r.TO, make([]byte, 10)),
				iwarptest.Send(s.next[0]+7, nil),
			}
		}, terminate("RFC 5041 section 7.1", 0x1100))
	return all
}

// invalidateCases are Sends with Invalidate.
func invalidateCases() []*Case {
	var all []*Case
	cannot := terminate("RFC 5040 section 5.3", 0x0109, 0x0209)
	for _, v := range []struct {
		id, ids string
		stag    func(s *session) uint32
		more    []Answer
	}{
		{id: "stag-0", ids: "RDMAP-7.2-04", stag: func(*session) uint32 { return 0 }},
		{
			id: "unknown", ids: "RDMAP-7.2-04",
			stag: func(s *session) uint32 { return s.region(advert.Victim).STag ^ 0x4000 },
		},
		{
			id: "wrong-key", ids: "RDMAP-7.2-04",
			stag: func(s *session) uint32 { return s.region(advert.Victim).STag ^ 1 },
		},
		{id: "gone", ids: "RDMAP-7.2-04", stag: func(s *session) uint32 { return s.region(advert.Gone).STag }},
		{
			id: "foreign-domain", ids: "RDMAP-7.2-05 RDMAP-5.3-11",
			stag: func(s *session) uint32 { return s.region(advert.Foreign).STag },
		},
		{
			id: "shared", ids: "RDMAP-8.1.1-07 RDMAP-5.3-11",
			stag: func(s *session) uint32 { return s.region(advert.Shared).STag },
		},
	} {
		for _, se := range []bool{false, true} {
			id := "invalidate/" + v.id
			if se {
				id += "-se"
			}
			all = append(all, segmentCase{
				id: id, ids: v.ids + " RDMAP-5.3-13", needs: Target, level: Hostile,
				rule:  "Only an STag of the stream can be invalidated by its peer",
				sends: "a Send with Invalidate: " + v.id,
				legal: append(legal(cannot, terminate("RFC 5040 section 7.2", 0x0100, 0x0103)), v.more...),
				segments: one(func(s *session) []byte {
					if se {
						return iwarptest.SendSolicitedInvalidate(s.msn(0), v.stag(s), []byte("E"))
					}
					return iwarptest.SendInvalidate(s.msn(0), v.stag(s), []byte("E"))
				}),
			}.build())
		}
	}
	after := func(id, ids, rule string, answers []Answer, then func(s *session, v advert.Region) []byte) {
		all = append(all, &Case{
			ID: "invalidate/then-" + id, Rules: rules(ids), Roles: Either, Needs: Target, Level: Hostile,
			Rule: rule, Sends: "a Send with Invalidate, then " + id, Legal: answers,
			run: func(s *session) {
				s.target()
				v := s.region(advert.Victim)
				s.send(iwarptest.SendInvalidate(s.msn(0), v.STag, []byte("E")))
				s.echoed(s.answer('E'), false, v.STag, nil)
				s.send(then(s, v))
				s.judge()
			},
		})
	}
	const revoked = "RDMAP-5.3-12 DDP-8.3-02 DDP-8.3.1-05 RDMAP-8.1.1-06"
	gone := "After it was invalidated an STag gives no access"
	after("write", revoked, gone, legal(terminate("RFC 5041 section 7.1", 0x1100)),
		func(_ *session, v advert.Region) []byte { return iwarptest.Write(v.STag, v.TO, []byte{1}) })
	after("read", revoked, gone, legal(terminate("RFC 5040 section 7.2", 0x0100)),
		func(s *session, v advert.Region) []byte {
			return iwarptest.ReadRequest(s.msn(1), 1, 0, 1, v.STag, v.TO)
		})
	after("again", "RDMAP-7.2-04", "The Invalidate STag must be valid",
		legal(cannot, terminate("RFC 5040 section 7.2", 0x0100)),
		func(s *session, v advert.Region) []byte { return iwarptest.SendInvalidate(s.msn(0), v.STag, nil) })
	after("empty-write", "DDP-5.2-08", "An empty Write is not checked, also after that",
		legal(carryOn("RFC 5041 section 5.2")),
		func(_ *session, v advert.Region) []byte { return iwarptest.Write(v.STag, v.TO, nil) })
	return append(all, &Case{
		ID: "invalidate/at-delivery", Rules: rules("RDMAP-5.3-12"), Roles: Either, Needs: Target, Level: Good,
		Rule:  "An STag is invalidated at delivery, not when the first segment is placed",
		Sends: "a Write between the two segments of a Send with Invalidate",
		Legal: legal(carryOn("RFC 5040 section 5.3")),
		run: func(s *session) {
			s.target()
			v := s.region(advert.Victim)
			m := s.msn(0)
			s.send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 4, Invalidate: v.STag, MSN: m}, []byte("E")),
				iwarptest.Write(v.STag, v.TO, []byte{1}),
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 4, Last: true, Invalidate: v.STag, MSN: m, MO: 1},
					[]byte("x")))
			s.echoed(s.answer('E'), false, v.STag, []byte("x"))
			s.bye()
		},
	})
}
