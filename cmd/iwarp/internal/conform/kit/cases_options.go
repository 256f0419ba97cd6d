package kit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// checkReply holds a Reply against its Request.
func (s *session) checkReply() {
	req, rep := s.mine, s.their
	switch {
	case rep.flags&0x0f != 0 || rep.rev < 2 && rep.flags&0x10 != 0:
		s.fail("the Reply has reserved flags %02x, which are sent as zero (RFC 5044 section 7.1.1)", rep.flags)
	case rep.block != req.block:
		s.fail("the Reply is enhanced: %t, the Request: %t (RFC 6581 section 10)", rep.block, req.block)
	case rep.rev > req.rev:
		s.fail("the Reply has Rev %d, the Request %d (RFC 6581 section 10)", rep.rev, req.rev)
	case !req.block:
		return
	case rep.a != req.a:
		s.fail("the Reply has A=%t, the Request A=%t (RFC 6581 section 9.2)", rep.a, req.a)
	case !rep.a && rep.rtr != 0:
		s.fail("the Reply has RTR flags %03b without A: they are sent as 0 (RFC 6581 section 9.2)", rep.rtr)
	case rep.a && rep.rtr == 0:
		s.fail("the Reply names no kind of RTR: at least one must be there (RFC 6581 section 9.2)")
	case req.ord == protocol.NotNegotiated && rep.ird != protocol.NotNegotiated:
		s.fail("the Reply has IRD %d, the Request left ORD open: 0x3fff is due (RFC 6581 section 9.1)", rep.ird)
	case req.ird == protocol.NotNegotiated && rep.ord != protocol.NotNegotiated:
		s.fail("the Reply has ORD %d, the Request left IRD open: 0x3fff is due (RFC 6581 section 9.1)", rep.ord)
	case req.ird != protocol.NotNegotiated && rep.ord != protocol.NotNegotiated && rep.ord > req.ird:
		s.fail("the Reply has ORD %d, above the Request's IRD %d (RFC 6581 section 9.1)", rep.ord, req.ird)
	}
}

// needRev2 ends a case that needs the enhanced frames where the peer has none.
func (s *session) needRev2() {
	if s.k.rev < 2 {
		s.notApplicable("MPA revision 1 is spoken: see --rev, or the peer closes on revision 2")
	}
}

// optionCases are good startups with each revision and combination of flags.
func optionCases() []*Case {
	var all []*Case
	for rev := byte(1); rev <= 2; rev++ {
		for _, enhanced := range []bool{false, true}[:rev] {
			for flags := range 4 {
				all = append(all, optionCase(rev, enhanced, byte(flags)<<6))
			}
		}
	}
	for bit := byte(1); bit <= 0x10; bit <<= 1 {
		all = append(all, reservedFlag(1, bit))
		if bit < 0x10 {
			all = append(all, reservedFlag(2, bit))
		}
	}
	all = append(all, reservedFlag(1, iwarptest.FlagR), reservedFlag(2, iwarptest.FlagR), reservedFlag(1, 0x3f))
	return append(all, replyOptionCases()...)
}

func optionCase(rev byte, enhanced bool, flags byte) *Case {
	m, c := flags&iwarptest.FlagM != 0, flags&iwarptest.FlagC != 0
	id := fmt.Sprintf("options/rev-%d-M%d-C%d", rev, flags>>7, flags>>6&1)
	if enhanced {
		id += "-S1"
	}
	ids := "MPA-7.1.1-06 MPA-7.1.1-07 MPA-7.1.1-09 MPA-4.4-04 MPA-7.1.1-13 MPA2-6-04 MPA2-10-01 MPA2-10-02 R26"
	if m {
		ids += " MPA-4.3-03 MPA-4.3-04 MPA-4.3-08 R19"
	}
	return &Case{
		ID: id, Rules: rules(ids), Roles: Initiator, Level: Good,
		Rule: "Each revision and combination of M and C works, in the framing that both frames agree on",
		Sends: fmt.Sprintf("a Request Rev %d with M=%t C=%t S=%t, then Reads of no octets until Markers were due", rev,
			m, c, enhanced),
		Legal: legal(carryOn("RFC 5044 section 7.1.1, RFC 6581 section 10")),
		run: func(s *session) {
			if rev == 2 {
				s.needRev2()
			}
			s.open(func(h *hello) {
				h.rev, h.flags = rev, flags
				if h.block = enhanced; !enhanced {
					h.a, h.rtr = false, 0
				} else {
					h.a, h.rtr, h.ird, h.ord = true, rtrWrite|rtrRead, 16, 16
				}
			})
			s.checkReply()
			for range 40 { // more than 512 octets of answers
				s.works("a Read of no octets")
			}
			s.bye()
		},
	}
}

func reservedFlag(rev, bit byte) *Case {
	ids, rule, level := "MPA-7.1.1-13", "Res bits are not checked on receive", Hostile
	if bit&iwarptest.FlagR != 0 {
		// Linux siw accepts with a Reply that has R too, and stops when the initiator,
		// which was rejected, goes away.
		ids, rule, level = "MPA-7.1.1-11", "R in a Request is not checked", Crasher
	}
	return &Case{
		ID: fmt.Sprintf("options/rev-%d-flag-%02x", rev, bit), Rules: rules(ids), Roles: Initiator, Level: level,
		Rule: rule, Sends: fmt.Sprintf("a Request Rev %d with the flags %02x set", rev, bit),
		Legal: legal(carryOn("RFC 5044 section 7.1.1")),
		run: func(s *session) {
			if rev == 2 {
				s.needRev2()
			}
			s.open(func(h *hello) {
				if h.flags |= bit; rev == 1 {
					h.rev, h.block, h.a, h.rtr = 1, false, false, 0
				}
			})
			s.judge()
		},
	}
}

// replyOptionCases are the same for the kit as responder, and Replies that do
// not fit the Request.
func replyOptionCases() []*Case {
	var all []*Case
	good := func(id, ids, rule string, mod func(*hello)) {
		all = append(all, &Case{
			ID: "options/reply-" + id, Rules: rules(ids), Roles: Responder, Level: Good, Rule: rule,
			Sends: "a Reply: " + id,
			Legal: legal(carryOn("RFC 5044 section 7.1.1")),
			run: func(s *session) {
				s.open(mod)
				for range 40 {
					s.works("a Read of no octets")
				}
				s.bye()
			},
		})
	}
	good("M1", "MPA-7.1.1-06 MPA-4.3-03 MPA-4.3-04 MPA-4.3-05 MPA-4.3-08 R19",
		"M in the Reply makes the initiator insert Markers", func(h *hello) { h.flags |= iwarptest.FlagM })
	good("M0", "MPA-7.1.1-07", "Without M in the Reply the initiator inserts none",
		func(h *hello) { h.flags &^= iwarptest.FlagM })
	good("C1", "MPA-7.1.1-09 MPA-4.4-07 R26", "C=1 in either frame: CRC in both directions",
		func(h *hello) { h.flags |= iwarptest.FlagC })
	good("C0", "MPA-7.1.1-09 MPA-4.4-04 R26", "C=0 in the Reply alone does not turn a CRC off that the Request wants",
		func(h *hello) { h.flags &^= iwarptest.FlagC })
	for bit := byte(1); bit < 0x10; bit <<= 1 {
		good(fmt.Sprintf("flag-%02x", bit), "MPA-7.1.1-13", "Res bits are not checked on receive",
			func(h *hello) { h.flags |= bit })
	}
	misfit := func(id, ids, rule string, mod func(s *session, h *hello), answers ...Answer) {
		all = append(all, &Case{
			ID: "options/reply-" + id, Rules: rules(ids), Roles: Responder, Level: Hostile, Rule: rule,
			Sends: "a Reply: " + id, Legal: answers,
			run: func(s *session) {
				s.noNudge = true
				s.open(func(h *hello) { mod(s, h) })
				// The initiator may open the stream first, and end it then.
				o, ok := s.pump(s.timeout(), func() bool { return s.frames > 0 })
				if ok {
					o = s.probe()
				}
				s.verdict(s.close2(o))
			},
		})
	}
	needS := func(s *session) {
		if !s.their.block {
			s.notApplicable("the client's Request is not enhanced")
		}
	}
	misfit("unenhanced", "MPA2-10-01 MPA-7.1.2-11",
		"An unenhanced Reply to an enhanced Request breaks RFC 6581: end, or go on with what was agreed",
		func(s *session, h *hello) { needS(s); h.rev, h.block, h.a, h.rtr = 1, false, false, 0 },
		end("RFC 6581 section 10"), terminate("RFC 6581 section 9.3", 0x2005, 0x2004), carryOn(
			"RFC 5044 section 7.1.1",
		))
	misfit("without-A", "MPA2-9.2-04 MPA-7.1.2-11", "A Reply that drops A: end, or go on client-server",
		func(s *session, h *hello) {
			needS(s)
			if !s.their.a {
				s.notApplicable("the client asks for a client-server connection")
			}
			h.a, h.rtr = false, 0
		}, end("RFC 6581 section 9.2"), terminate("RFC 6581 section 9.3", 0x2005, 0x2004, 0x2007), carryOn(
			"RFC 6581 section 9.2",
		))
	misfit("enhanced-to-rev-1", "MPA2-10-02", "An enhanced Reply to a Request Rev 1 breaks RFC 6581: end, or ignore it",
		func(s *session, h *hello) {
			if s.their.rev != 1 {
				s.notApplicable("the client's Request has Rev %d", s.their.rev)
			}
			h.rev, h.block, h.ird, h.ord = 2, true, 1, 1
		}, end("RFC 6581 section 10"), carryOn("RFC 5044 section 7.1.1"))
	return all
}

// depthCases negotiate IRD and ORD.
func depthCases() []*Case {
	var all []*Case
	for _, v := range [][2]uint16{
		{0, 0},
		{0, 1},
		{1, 0},
		{1, 1},
		{2, 2},
		{7, 300},
		{300, 7},
		{300, 300},
		{0x3ffe, 0x3ffe},
		{0x3ffe, 0},
		{0, 0x3ffe},
		{protocol.NotNegotiated, protocol.NotNegotiated},
		{protocol.NotNegotiated, 1},
		{1, protocol.NotNegotiated},
		{protocol.NotNegotiated, 0},
		{0, protocol.NotNegotiated},
	} {
		ids := "MPA2-9.1-01 MPA2-9.1-03 MPA2-9.1-02 R13"
		if v[0] == protocol.NotNegotiated || v[1] == protocol.NotNegotiated {
			ids += " MPA2-9.1-09 MPA2-9.1-10 MPA2-9.1-12"
		}
		all = append(all, &Case{
			ID: fmt.Sprintf("depth/ird-%d-ord-%d", v[0], v[1]), Rules: rules(ids), Roles: Initiator, Level: Good,
			Rule:  "The Reply's ORD is at most the Request's IRD; what the Request leaves open stays open",
			Sends: fmt.Sprintf("a Request with IRD %d and ORD %d", v[0], v[1]),
			Legal: legal(carryOn("RFC 6581 section 9.1"),
				reject("RFC 6581 section 9.1, where the initiator's IRD is too small")),
			run: func(s *session) {
				s.needRev2()
				s.open(func(h *hello) { h.ird, h.ord = v[0], v[1] })
				s.checkReply()
				if s.k.o.ULP == Target {
					s.awaitAdvert()
				}
				if s.maxReads > 0 || s.advert != nil {
					s.works("an agreed connection")
				}
				s.bye()
			},
		})
	}
	reply := func(id, ids, rule string, mod func(s *session, h *hello), answers ...Answer) {
		all = append(all, &Case{
			ID: "depth/reply-" + id, Rules: rules(ids), Roles: Responder, Level: Hostile, Rule: rule,
			Sends: "a Reply: " + id, Legal: answers,
			run: func(s *session) {
				s.noNudge = true
				s.open(func(h *hello) {
					if !s.their.block {
						s.notApplicable("the client's Request is not enhanced")
					}
					mod(s, h)
				})
				o, ok := s.pump(s.timeout(), func() bool { return s.frames > 0 })
				if ok {
					o = s.probe()
				}
				s.verdict(s.close2(o))
			},
		})
	}
	on := carryOn("RFC 6581 section 9.1")
	few := terminate("RFC 6581 section 9.1", 0x2006, 0x2005)
	reply("ird-0", "MPA2-9.1-06", "The initiator's ORD is at most the responder's IRD: none",
		func(s *session, h *hello) {
			if s.their.rtr == rtrRead {
				s.notApplicable("the client's only RTR is a Read")
			}
			h.ird = 0
			if h.rtr &^= rtrRead; h.rtr == 0 {
				h.rtr = s.their.rtr &^ rtrRead
			}
		}, on, few)
	reply("ird-1", "MPA2-9.1-06", "The initiator's ORD is at most the responder's IRD",
		func(_ *session, h *hello) { h.ird = 1 }, on)
	reply("ird-open", "MPA2-9.1-11", "IRD 0x3fff: the initiator keeps its ORD",
		func(_ *session, h *hello) { h.ird = protocol.NotNegotiated }, on)
	reply("ord-open", "MPA2-9.1-13", "ORD 0x3fff: the initiator keeps its IRD",
		func(_ *session, h *hello) { h.ord = protocol.NotNegotiated }, on)
	reply("ird-16382", "MPA2-9.1-06", "A larger IRD than was asked for does no harm",
		func(_ *session, h *hello) { h.ird = 0x3ffe }, on, few)
	reply("ord-0", "MPA2-9.1-06", "A responder that will not read", func(_ *session, h *hello) { h.ord = 0 }, on)
	reply("ord-16382", "MPA2-9.1-06 MPA2-9.1-07",
		"ORD above what the initiator can serve: it raises its IRD, or ends with 2/0/06",
		func(s *session, h *hello) {
			if s.their.ird == protocol.NotNegotiated {
				s.notApplicable("the client leaves IRD open")
			}
			h.ord = 0x3ffe
		}, on, few, end("RFC 6581 section 9.1"))
	return all
}

// privateCases send Private Data of every interesting length.
func privateCases() []*Case {
	var all []*Case
	for rev, most := range map[byte]int{1: 512, 2: 508} {
		for _, n := range []int{0, 1, 2, 3, 4, 8, 251, 252, 253, 255, 256, 257, 508, 511, 512} {
			if n > most {
				continue
			}
			all = append(all, privateCase(rev, n, Initiator), privateCase(rev, n, Responder))
		}
	}
	slices.SortFunc(all, func(a, b *Case) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func privateCase(rev byte, n int, role Role) *Case {
	kind, level := "request", Good
	if role == Responder {
		kind = "reply"
		// The enhanced block counts too: Linux siw reads from a NULL pointer.
		if n > 256 || rev == 2 && n > 252 {
			level = Crasher
		}
	}
	return &Case{
		ID:    fmt.Sprintf("private/%s-rev-%d-%03d", kind, rev, n),
		Rules: rules("MPA-7.1.1-17 MPA-7.1.1-19 MPA-7.1.1-20 MPA2-6-05 MPA2-9-02 R13 R14 R15"),
		Roles: role, Level: level, Rule: "The ULP gets exactly the octets of the peer's ULP",
		Sends: fmt.Sprintf("%d octets of Private Data, in a frame of Rev %d", n, rev),
		Legal: legal(carryOn("RFC 5044 section 7.1.1, RFC 6581 section 9")),
		run: func(s *session) {
			data := bytes.Repeat([]byte{0xa5, 0x00, 0x5a}, 200)[:n]
			if role == Initiator && rev == 2 {
				s.needRev2()
			}
			s.open(func(h *hello) {
				if role == Initiator && rev == 1 {
					h.rev, h.block, h.a, h.rtr = 1, false, false, 0
				}
				if role == Responder && h.block != (rev == 2) {
					s.notApplicable("the client's Request is enhanced: %t", h.block)
				}
				h.pd = data
			})
			if s.k.o.ULP == Target {
				a := s.awaitAdvert()
				if a.PDLen != n || a.PDCRC != advert.Checksum(data) {
					s.fail("the peer's ULP got %d octets of Private Data with CRC32c %08x: %d with %08x are right "+
						"(RFC 5044 section 7.1.1)",
						a.PDLen, a.PDCRC, n, advert.Checksum(data))
				}
				if role == Initiator {
					s.same("Private Data of the Reply, which a target copies from the Request",
						"RFC 5044 section 7.1.1", s.their.pd, data)
				}
			}
			s.works("startup with Private Data")
			s.bye()
		},
	}
}

// rtrCases open peer-to-peer connections in each way.
func rtrCases() []*Case {
	var all []*Case
	name := func(set byte) string {
		s := ""
		for i, n := range []string{"send", "write", "read"} {
			if set>>i&1 != 0 {
				s += "-" + n
			}
		}
		return s
	}
	for set := byte(1); set < 8; set++ {
		for kind := byte(1); kind < 8; kind <<= 1 {
			if set&kind == 0 {
				continue
			}
			level := Good
			if set == rtrSend {
				level = Crasher // Linux 6.1 has no such RTR, and stops when the initiator then goes away
			}
			all = append(all, &Case{
				ID:    fmt.Sprintf("rtr/offer%s-use%s", name(set), name(kind)),
				Rules: rules("MPA2-9.2-01 MPA2-9.2-03 MPA2-9.2-04 MPA2-9.2-05 MPA2-9.2-06 R03 R17"), Roles: Initiator,
				Level: level,
				Rule:  "The responder names the common kinds of RTR, and takes each",
				Sends: fmt.Sprintf("A=1 with%s, then the RTR%s", name(set), name(kind)),
				Legal: legal(carryOn("RFC 6581 section 9.2")),
				run: func(s *session) {
					s.needRev2()
					s.noNudge = true
					s.open(func(h *hello) { h.rtr = set })
					s.checkReply()
					if s.their.rtr&kind == 0 {
						s.noNudge = false
						s.begin() // Linux does not bear an initiator that goes away before its RTR
						s.notApplicable("the peer does not do the RTR%s: it names%s", name(kind), name(s.their.rtr))
					}
					s.rtr(kind)
					s.works("after the RTR")
					s.bye()
				},
			})
		}
	}
	for set := byte(1); set < 8; set++ {
		all = append(all, &Case{
			ID: "rtr/without-A" + name(set), Rules: rules("MPA2-9.2-10 MPA2-9.2-04"), Roles: Initiator, Level: Hostile,
			Rule: "Without A the kinds of RTR are ignored on receive", Sends: "A=0 with the flags" + name(set),
			Legal: legal(carryOn("RFC 6581 section 9.2")),
			run: func(s *session) {
				s.needRev2()
				s.open(func(h *hello) { h.a, h.rtr = false, set })
				if s.their.a || s.their.rtr != 0 {
					s.fail("the Reply has A=%t and RTR flags %03b: A is copied, the flags are 0 (RFC 6581 section 9.2)",
						s.their.a, s.their.rtr)
				}
				s.judge()
			},
		})
	}
	first := func(id, ids, rule, sends string, level Level, segment func(s *session) [][]byte, answers ...Answer) {
		all = append(all, &Case{
			ID: "rtr/" + id, Rules: rules(ids), Roles: Initiator, Level: level, Rule: rule, Sends: sends,
			Legal: answers,
			run: func(s *session) {
				s.needRev2()
				s.noNudge = true
				s.open()
				s.send(segment(s)...)
				s.judge()
			},
		})
	}
	on := carryOn("RFC 5041 section 5.2")
	first("write-any-stag", "DDP-5.2-08 MPA2-9.2-01 R17", "STag and TO of an empty Write are not checked",
		"an RTR Write with a random STag and TO 2^64-1", Good,
		func(*session) [][]byte { return [][]byte{iwarptest.Write(0xdeadbeef, ^uint64(0), nil)} }, on)
	first("read-any-stag", "RDMAP-5.2.1-12 RDMAP-5.2.1-13 MPA2-9.2-01 R17",
		"The source of an empty Read is not checked", "an RTR Read with random STags", Good,
		func(s *session) [][]byte {
			if s.their.rtr&rtrRead == 0 {
				s.noNudge = false
				s.begin()
				s.notApplicable("the peer does not do the RTR Read")
			}
			s.reads = append(s.reads, &read{stag: 0xfeedface, to: 7})
			return [][]byte{iwarptest.ReadRequest(s.msn(1), 0xfeedface, 7, 0, 0xdeadbeef, ^uint64(0))}
		}, carryOn("RFC 5040 section 5.2.1"))
	first("none", "MPA2-9.2-08 MPA2-5-02", "A first FPDU that is no RTR: take it, or end",
		"a Write of one octet to an unknown STag where an RTR is due", Crasher,
		func(*session) [][]byte { return [][]byte{iwarptest.Write(0xdeadbeef, 0, []byte{1})} },
		terminate("RFC 5041 section 7.1", 0x1100), terminate("RFC 6581 section 9.3", 0x2005), end(
			"RFC 6581 section 9.2",
		))
	first("twice", "MPA2-9.2-08 DDP-5.2-08", "A second RTR Write is an empty Write like others", "two RTR Writes", Good,
		func(*session) [][]byte { return [][]byte{iwarptest.Write(0, 0, nil), iwarptest.Write(0, 0, nil)} }, on)
	all = append(all, &Case{
		ID: "rtr/no-kind-offered", Rules: rules("MPA2-9.2-02 MPA2-9.2-06"), Roles: Initiator, Level: Crasher,
		Rule: "A=1 without a kind: answer with the kinds supported, reject, or close", Sends: "A=1 with B, C and D 0",
		Legal: legal(accept("RFC 6581 section 9.2"), reject("RFC 6581 section 9.2"), end("RFC 6581 section 9.2")),
		run: func(s *session) {
			s.needRev2()
			s.connect()
			h := s.base()
			h.rtr = 0
			o := s.exchange(h)
			if o.kind == replies {
				s.checkReply()
			}
			s.verdict(o)
		},
	}, &Case{
		ID: "rtr/responder-silent-before", Rules: rules("MPA-7.1.2-14 MPA2-5-02 R18"), Roles: Initiator, Level: Good,
		Rule: "The responder sends nothing before a valid FPDU has come", Sends: "a Request, then nothing for a while",
		Legal: legal(sayLess("RFC 5044 section 7.1.2 rule 4")),
		run:   func(s *session) { s.silentBefore(true) },
	}, &Case{
		ID: "rtr/responder-silent-client-server", Rules: rules("MPA-7.1.2-14 R18"), Roles: Initiator, Level: Good,
		Rule:  "The responder sends nothing before a valid FPDU has come",
		Sends: "a Request without RTR, then nothing for a while",
		Legal: legal(sayLess("RFC 5044 section 7.1.2 rule 4")),
		run:   func(s *session) { s.silentBefore(false) },
	})
	return all
}

func (s *session) silentBefore(p2p bool) {
	s.noNudge = true
	s.open(func(h *hello) {
		if !p2p {
			h.a, h.rtr = false, 0
		}
	})
	if o, ok := s.pump(2*quietly, func() bool { return s.frames > 0 }); ok || o.kind != silent {
		s.fail("the peer %v, or has sent an FPDU, before it had one (RFC 5044 section 7.1.2 rule 4)", o)
	}
	s.noNudge = false
	s.begin()
	s.works("after the first FPDU")
	s.bye()
}

// rtrReplyCases are about the RTR that an initiator sends.
func rtrReplyCases() []*Case {
	var all []*Case
	for i, name := range []string{"send", "write", "read"} {
		kind := byte(1) << i
		all = append(all, &Case{
			ID: "rtr/reply-" + name, Rules: rules("MPA2-9.2-08 MPA2-5-02 MPA2-9.2-09 R03"), Roles: Responder,
			Level: Hostile,
			Rule:  "The initiator sends one RTR of a kind that both do, or ends with 2/0/07",
			Sends: "a Reply with the RTR " + name + " alone",
			Legal: legal(carryOn("RFC 6581 section 9.2"), terminate("RFC 6581 section 9.2", 0x2007)),
			run: func(s *session) {
				s.manual, s.noNudge = true, true
				req := s.request()
				if !s.their.a {
					s.notApplicable("the client asks for a client-server connection")
				}
				h := s.answerTo(s.their)
				h.rtr = kind
				h.ird = max(h.ird, 1)
				s.respond(req, h)
				s.manual = true
				o, ok := s.pump(s.timeout(), func() bool { return s.frames > 0 })
				switch {
				case ok && s.their.rtr&kind == 0:
					s.fail("the initiator sends %s, although no kind of RTR is common (RFC 6581 section 9.2)",
						iwarptest.Describe(s.first))
				case ok && !isRTR(kind, s.first):
					s.fail("the first FPDU is %s, where the RTR %s is due (RFC 6581 section 9.2)",
						iwarptest.Describe(s.first), name)
				case o.kind == terminates && s.their.rtr&kind != 0:
					s.fail("the initiator offers the RTR %s and ends with %v (RFC 6581 section 9.2)", name, o)
				}
				s.verdict(s.close2(o))
			},
		})
	}
	return append(all, &Case{
		ID: "rtr/request-kinds", Rules: rules("MPA2-9.2-02 MPA2-9.2-10 MPA-7.1.1-14 MPA-7.1.1-13 MPA2-6-03"),
		Roles: Responder, Level: Good,
		Rule:  "A Request is well formed: reserved flags 0, with A at least one kind of RTR, without A none",
		Sends: "a good Reply",
		Legal: legal(carryOn("RFC 6581 section 9.2")),
		run: func(s *session) {
			s.open()
			r := s.their
			switch {
			case r.flags&0x2f != 0 || r.rev < 2 && r.flags&0x10 != 0:
				s.fail("the Request has the flags %02x: R and Res are sent as zero (RFC 5044 section 7.1.1)", r.flags)
			case r.rev != 1 && r.rev != 2:
				s.fail("the Request has Rev %d (RFC 5044 section 7.1.1)", r.rev)
			case r.block && r.a && r.rtr == 0:
				s.fail("the Request has A=1 and no kind of RTR (RFC 6581 section 9.2)")
			case r.block && !r.a && r.rtr != 0:
				s.fail("the Request has A=0 and the RTR flags %03b, which are sent as 0 (RFC 6581 section 9.2)", r.rtr)
			}
			s.works("a good startup")
			s.bye()
		},
	})
}

// isRTR reports whether a segment is the RTR of the kind.
func isRTR(kind byte, seg []byte) bool {
	op := seg[1] & 0xf
	switch kind {
	case rtrSend:
		return op == 3 && len(seg) == 18
	case rtrWrite:
		return op == 0 && len(seg) == 14
	}
	return op == 1 && len(seg) == 46 && bytes.Equal(seg[30:34], make([]byte, 4))
}
