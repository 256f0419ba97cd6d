package kit

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// codes are the Terminates that the RFCs define (RFC 6580 section 3, RFC 6581
// section 8).
var codes = []uint16{
	0x0000, 0x0042,
	0x0100, 0x0101, 0x0102, 0x0103, 0x0104, 0x0109, 0x01ff,
	0x0205, 0x0206, 0x0207, 0x0208, 0x0209, 0x02ff,
	0x1000, 0x1100, 0x1101, 0x1102, 0x1103, 0x1104,
	0x1201, 0x1202, 0x1203, 0x1204, 0x1205, 0x1206,
	0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007,
}

// terminateCases send Terminates, and look at those of the peer.
func terminateCases() []*Case {
	var all []*Case
	add := func(id, ids, sends string, level Level, segment func(s *session) []byte) {
		all = append(all, &Case{
			ID: "terminate/" + id, Rules: rules(ids), Roles: Either, Level: level,
			Rule: "A Terminate ends the stream, and no Terminate answers it", Sends: sends,
			Legal: legal(end("RFC 5040 sections 5.4 and 6.2.1")),
			run: func(s *session) {
				s.open()
				s.send(segment(s))
				s.p.CloseWrite()
				s.judgeEnd(s.timeout())
			},
		})
	}
	offender := iwarptest.Send(1, []byte("guilty"))
	for _, c := range codes {
		add("code-"+bytesText(c), "RDMAP-5.4-03 RDMAP-5.4-04 RDMAP-6.2.1-02 RDMAP-4.8-02 R59 R60",
			"a Terminate "+codeText(c), Good, func(*session) []byte {
				if c>>8 == 0 || c>>12 == 2 || c == 0x1000 {
					return iwarptest.Terminate(c, nil)
				}
				return iwarptest.Terminate(c, offender)
			})
	}
	for _, c := range []uint16{0x0300, 0x01aa, 0x1300, 0x1207, 0x2008, 0x2100, 0x3000, 0xffff} {
		add("unknown-"+bytesText(c), "RDMAP-4.8-02 RDMAP-5.4-04",
			"a Terminate with the code "+codeText(c)+", which is not defined", Hostile,
			func(*session) []byte { return iwarptest.Terminate(c, nil) })
	}
	raw := func(b ...byte) func(*session) []byte {
		return func(*session) []byte {
			return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1},
				b)
		}
	}
	for n := range 4 {
		add(fmt.Sprintf("length-%d", n), "RDMAP-4.8-01", fmt.Sprintf("a Terminate of %d octets, of 4 at least", n),
			Crasher, raw(make([]byte, n)...))
	}
	add("reserved", "RDMAP-4.8-04", "a Terminate with its reserved bits set", Hostile, raw(0x12, 0x03, 0x1f, 0xff))
	add("length-without-header", "RDMAP-4.8-05", "a Terminate with M alone", Hostile, raw(0x12, 0x03, 0x80, 0, 0, 28))
	add("m-without-length", "RDMAP-4.8-05", "a Terminate with M, and no length behind it", Crasher,
		raw(0x12, 0x03, 0x80, 0))
	add("d-without-header", "RDMAP-4.8-06", "a Terminate with D, and no DDP header behind the length", Crasher,
		raw(0x12, 0x03, 0xc0, 0, 0, 28))
	add("d-half-header", "RDMAP-4.8-06", "a Terminate with D, and half a DDP header", Crasher,
		raw(append([]byte{0x12, 0x03, 0xc0, 0, 0, 28}, offender[:9]...)...))
	add("r-without-header", "RDMAP-4.8-07", "a Terminate with R, as Linux siw sends it, and no RDMA header", Crasher,
		raw(append([]byte{0x01, 0x09, 0xe0, 0, 0, 28}, offender[:18]...)...))
	add("r-half-header", "RDMAP-4.8-07", "a Terminate with R, and half an RDMA header", Crasher,
		raw(append([]byte{0x01, 0x00, 0xe0, 0, 0, 46}, iwarptest.ReadRequest(1, 1, 0, 1, 1, 1)[:30]...)...))
	add("trailing-octets", "RDMAP-4.8-01", "a Terminate with octets behind it", Hostile,
		raw(0x12, 0x03, 0, 0, 1, 2, 3, 4, 5))
	add("long", "RDMAP-4.8-01 DDP-7.1-05", "a Terminate of 1000 octets", Crasher,
		raw(append([]byte{0x12, 0x03, 0, 0}, make([]byte, 996)...)...))
	for _, msn := range []uint32{0, 2, 1<<32 - 1} {
		all = append(all, &Case{
			ID: fmt.Sprintf("terminate/msn-%d", msn), Rules: rules("RDMAP-5.4-02 DDP-4.3-07"), Roles: Either,
			Level: Crasher,
			Rule:  "The Terminate of a stream has MSN 1", Sends: fmt.Sprintf("a Terminate with MSN %d", msn),
			Legal: legal(end("RFC 5040 section 5.4"), terminate("RFC 5041 section 7.1", 0x1203, 0x1202)),
			run: func(s *session) {
				s.open()
				s.send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: msn},
					[]byte{0x12, 0x03, 0, 0}))
				s.p.CloseWrite()
				s.judgeEnd(s.timeout())
			},
		})
	}
	add("two", "RDMAP-5.4-07 RDMAP-5.4-03", "two Terminates", Hostile, func(s *session) []byte {
		s.send(iwarptest.Terminate(0x1203, nil))
		return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 2},
			[]byte{0x12, 0x03, 0, 0})
	})
	add("then-write", "RDMAP-5.4-07", "a Terminate, then an empty Write", Hostile, func(s *session) []byte {
		s.send(iwarptest.Terminate(0x1203, nil))
		return iwarptest.Write(0, 0, nil)
	})
	return append(all, echoCases()...)
}

func bytesText(c uint16) string { return fmt.Sprintf("%x-%x-%02x", c>>12, c>>8&0xf, c&0xff) }

// echoCases look at what a Terminate carries of the segment at fault.
func echoCases() []*Case {
	var all []*Case
	add := func(id, ids, sends string, segment func(s *session) []byte, readRequest bool) {
		all = append(all, &Case{
			ID:    "terminate/echo-" + id,
			Rules: rules("RDMAP-7.1-03 RDMAP-4.8-01 RDMAP-4.8-05 RDMAP-4.8-06 RDMAP-4.8-09 DDP-7.1-12 " + ids),
			Roles: Either, Level: Hostile,
			Rule:  "A Terminate for a segment carries its length and DDP header, and a Read Request's own header",
			Sends: sends, Legal: legal(terminate("RFC 5040 section 4.8")),
			run: func(s *session) {
				s.open()
				seg := segment(s)
				s.send(seg)
				o := s.judge()
				e := parseEcho(o.body)
				header := 18
				if seg[0]&0x80 != 0 {
					header = 14
				}
				switch {
				case e.wrong != "":
					s.fail("the Terminate %x is malformed: %s (RFC 5040 section 4.8)", o.body, e.wrong)
				case e.ddp == nil:
					s.fail("the Terminate %x carries no DDP header: it is due for an error of an incoming message "+
						"(RFC 5040 section 7.1)",
						o.body)
				case !bytes.Equal(e.ddp, seg[:header]):
					s.fail("the Terminate carries the DDP header %x, that of the segment is %x (RFC 5040 section 4.8)",
						e.ddp, seg[:header])
				case e.length != len(seg):
					s.fail("the Terminate says that the segment has %d octets: it has %d (RFC 5040 section 4.8, RFC "+
						"5041 section 7.1)",
						e.length, len(seg))
				case readRequest && !bytes.Equal(e.readRequest, seg[18:46]):
					s.fail("the Terminate carries the Read Request header %x, %x is due (RFC 5040 section 7.1)",
						e.readRequest, seg[18:46])
				case !readRequest && e.readRequest != nil:
					s.fail("the Terminate carries a Read Request header, for what is none (RFC 5040 section 7.1)")
				}
			},
		})
	}
	add("write", "", "a Write of 77 octets to an unknown STag",
		func(*session) []byte { return iwarptest.Write(0xdeadbe00, 0x1234, make([]byte, 77)) }, false)
	add("send", "", "a Send of 5 octets with MSN 99",
		func(*session) []byte { return iwarptest.Send(99, make([]byte, 5)) }, false)
	add("empty-send", "", "an empty Send with MSN 99", func(*session) []byte { return iwarptest.Send(99, nil) }, false)
	add("version", "DDP-7.2-01", "a Write with DDP version 3",
		func(*session) []byte { return setBits(iwarptest.Write(1, 2, make([]byte, 10)), 0, 3, 3) }, false)
	add("opcode", "RDMAP-7.2-02", "a tagged message with opcode 15",
		func(*session) []byte { return iwarptest.Tagged(15, true, 0, 0, nil) }, false)
	add("read-request", "RDMAP-7.1-04 RDMAP-4.8-07", "a Read Request from an unknown STag", func(s *session) []byte {
		return iwarptest.ReadRequest(s.msn(1), 0x1111, 0x2222, 0x3333, 0xdeadbe00, 0x5555)
	}, true)
	return append(all, &Case{
		ID: "terminate/crc-carries-nothing", Rules: rules("RDMAP-7.1-02 RDMAP-4.8-09"), Roles: Either, Level: Hostile,
		Rule: "A Terminate for an error of the LLP carries no header", Sends: "an FPDU with a wrong CRC",
		Legal: legal(terminate("RFC 5040 section 4.8", 0x2002), end("RFC 5044 section 8")),
		run: func(s *session) {
			s.open()
			if s.p.Out.NoCRC {
				s.notApplicable("both ends go without CRC")
			}
			f := s.p.Out.Frame(iwarptest.Write(0, 0, nil))
			f[len(f)-1] ^= 1
			s.raw("an FPDU with a wrong CRC", f)
			if o := s.judge(); o.kind == terminates && (len(o.body) != 4 || o.body[2] != 0 || o.body[3] != 0) {
				s.fail("the Terminate %x carries more than its code (RFC 5040 section 4.8)", o.body)
			}
		},
	}, &Case{
		ID: "terminate/then-fin", Rules: rules("RDMAP-6.2.1-04 RDMAP-7-01 RDMAP-5.4-07 R59"), Roles: Either,
		Level: Hostile,
		Rule:  "After its Terminate the peer ends the connection by itself, in good order",
		Sends: "a Write to an unknown STag, and no FIN",
		Legal: legal(terminate("RFC 5040 section 6.2.1", 0x1100)),
		run: func(s *session) {
			s.open()
			s.send(iwarptest.Write(0xdeadbe00, 0, []byte{1}))
			o, _ := s.pump(s.timeout(), func() bool { return false })
			s.verdict(o)
			if e := s.p.Await(s.k.o.Patience); e.Kind == iwarptest.EventSilence {
				s.unclear("the connection is open %v after the Terminate: the peer may wait for the kit's FIN (RFC "+
					"5040 section 6.2.1)",
					s.k.o.Patience)
			} else if e.Kind == iwarptest.EventReset {
				s.unclear("the peer resets the connection after its Terminate, which could destroy it: graceful is a " +
					"SHOULD (RFC 5040 section 6.2.1)")
			} else if e.Kind != iwarptest.EventFIN {
				s.fail("the peer goes on after its Terminate (RFC 5040 section 5.4)")
			}
		},
	})
}

// teardownCases end a connection at each stage of Full Operation.
func teardownCases() []*Case {
	var all []*Case
	frame := iwarptest.FPDU(iwarptest.Send(1, []byte("hello")))
	for _, how := range []string{"fin", "reset"} {
		for _, n := range []int{0, 1, 2, 3, 16, 20, len(frame) - 4, len(frame) - 1} {
			answers := legal(end("RFC 5044 section 8, RFC 5041 section 6.2.1"))
			if n > 0 {
				answers = append(answers, terminate("RFC 5040 section 6.2.1", 0x2001, 0x2002))
			}
			ids := "MPA-8-01 MPA-6-03 MPA-7.2-01 DDP-6.2.2-01"
			if n == 0 {
				ids = "MPA-7.2-02 DDP-6.2.1-05 MPA-7.2-01"
			}
			if how == "reset" {
				answers = nil
			}
			all = append(all, &Case{
				ID: fmt.Sprintf("teardown/%s-after-%02d", how, n), Rules: rules(ids), Roles: Either, Level: Hostile,
				Rule:  "When the peer's half ends, within an FPDU or between two, the connection ends",
				Sends: fmt.Sprintf("%d octets of an FPDU, then %s", n, how), Legal: answers,
				run: func(s *session) {
					s.open()
					if n > 0 {
						f := s.p.Out.Frame(iwarptest.Send(s.msn(0), []byte("hello")))
						s.raw("a part of an FPDU", f[:n])
					}
					if how == "reset" {
						_ = s.p.Reset()
						return
					}
					s.p.CloseWrite()
					s.judgeEnd(s.timeout())
				},
			})
		}
	}
	all = append(all, &Case{
		ID: "teardown/half-close", Rules: rules("DDP-6.2.1-04 DDP-6.2.1-06"), Roles: Either, Needs: Target, Level: Good,
		Rule:  "After the peer's FIN what was asked before is still answered",
		Sends: "a Read Request of 256 KiB, then a FIN", Legal: legal(carryOn("RFC 5041 section 6.2.1")),
		run: func(s *session) {
			s.target()
			r := s.region(advert.Large)
			x := s.read(5, 0, r.Size, r.STag, r.TO)
			s.p.CloseWrite()
			if o, ok := s.pump(s.timeout(), func() bool { return x.complete }); !ok {
				s.fail("a Read Request before the FIN: the peer %v (RFC 5041 section 6.2.1)", s.close2(o))
			}
			s.same("what was read", "RFC 5041 section 6.2.1", x.data, content(advert.Large, r.Size))
		},
	}, &Case{
		ID: "teardown/peer-half-closes", Rules: rules("DDP-6.2.1-06 DDP-6.2.1-01 MPA-7.2-01"), Roles: Either,
		Needs: Target, Level: Good,
		Rule:  "An endpoint that has closed its half still receives",
		Sends: "the command to close, then a Write, then a FIN", Legal: legal(end("RFC 5041 section 6.2.1")),
		run: func(s *session) {
			s.target()
			s.post('X')
			e := s.p.Await(s.timeout())
			if e.Kind != iwarptest.EventFIN {
				s.fail("the target was told to close its half and has not (docs/conform.md)")
			}
			r := s.region(advert.All)
			if err := s.p.TrySend(iwarptest.Write(r.STag, r.TO, []byte{1, 2, 3})); err != nil {
				s.fail("a Write after the peer's FIN: %v (RFC 5041 section 6.2.1)", err)
			}
			s.p.CloseWrite()
		},
	}, &Case{
		ID: "teardown/idle", Rules: rules("MPA-7.1.2-26 DDP-6.2-01"), Roles: Either, Level: Good,
		Rule: "A connection on which nothing is sent stays", Sends: "nothing for a while, then a Read of no octets",
		Legal: legal(carryOn("RFC 5041 section 6.2")),
		run: func(s *session) {
			s.open()
			s.works("before")
			if o, _ := s.pump(5*quietly, func() bool { return false }); o.kind != silent {
				s.fail("an idle connection: the peer %v (RFC 5041 section 6.2)", s.close2(o))
			}
			s.works("after a pause")
			s.bye()
		},
	}, &Case{
		ID: "teardown/data-after-fin-is-not-sent", Rules: rules("DDP-6.2.1-05 MPA-7.2-01"), Roles: Either, Level: Good,
		Rule: "A good end is a FIN from either side", Sends: "a FIN between FPDUs",
		Legal: legal(end("RFC 5041 section 6.2.1")),
		run: func(s *session) {
			s.open()
			s.works("before")
			s.bye()
		},
	}, &Case{
		ID: "teardown/unread-responses", Rules: rules("R35 R57 DDP-6.2.2-02"), Roles: Either, Needs: Target,
		Level: Hostile,
		Rule:  "An endpoint that cannot get rid of its answers ends with its peer",
		Sends: "Read Requests of 256 KiB, and a reset while they are answered", Legal: nil,
		run: func(s *session) {
			s.target()
			s.wantReads(1)
			r := s.region(advert.Large)
			var segs [][]byte
			for range s.maxReads {
				segs = append(segs, iwarptest.ReadRequest(s.msn(1), 9, 0, r.Size, r.STag, r.TO))
			}
			s.send(segs...)
			_ = s.p.Reset()
		},
	})
	return all
}

// senderCases look at what the peer sends by itself.
func senderCases() []*Case {
	var all []*Case
	add := func(id, ids, rule string, run func(s *session)) {
		all = append(all, &Case{
			ID: "sender/" + id, Rules: rules(ids), Roles: Either, Needs: Target, Level: Good, Rule: rule,
			Sends: "a command to the target", Legal: legal(carryOn("RFC 5041 section 5.2")),
			run: func(s *session) {
				s.target()
				run(s)
				s.works("afterwards")
				s.bye()
			},
		})
	}
	const cut = "DDP-5.2-01 DDP-5.2-03 DDP-5.2-05 DDP-4.1-03 DDP-4.1-05 DDP-4.3-06 DDP-4.3-10 MPA-4.1-03 MPA-3-01"
	for _, n := range []uint32{0, 1, 2, 3, 1423, 1424, 1425, 5000, 65536, 1 << 20} {
		add(fmt.Sprintf("send-%d", n), cut+" DDP-5.2-07 R29",
			"A message is cut into segments that follow each other, the last one alone with L", func(s *session) {
				s.same("the message", "RFC 5041 section 5.2", s.command('S', u32(n)), content(advert.Large, n))
			})
	}
	for _, n := range []uint32{0, 1, 1429, 1430, 5000, 65536, 1 << 20} {
		add(fmt.Sprintf("write-%d", n),
			"DDP-5.2-06 DDP-4.1-03 DDP-4.2-04 DDP-4.2-05 RDMAP-5.1-01 RDMAP-5.1-06 RDMAP-5.1-07 R27",
			"A Write is cut into segments that follow each other, and is there when a later Send is",
			func(s *session) {
				const stag = 0x00600d01
				s.mem[stag] = &memory{buf: make([]byte, n)}
				s.command('W', u32(stag), u64(0), u32(n))
				s.same("the memory", "RFC 5040 section 5.1", s.mem[stag].buf, content(advert.Large, n))
				last := s.runs[len(s.runs)-1]
				if last.size != int(n) || n == 0 && last.segments != 1 {
					s.fail("the Write has %d octets in %d segments (RFC 5041 section 5.2)", last.size, last.segments)
				}
			})
	}
	add("solicited-is-not-set", "RDMAP-4.1-05", "What is no Send with Solicited Event is not sent as one",
		func(s *session) {
			s.post('E')
			if o, ok := s.pump(s.timeout(), func() bool { return len(s.inbox) > 0 }); !ok {
				s.fail("the peer %v", s.close2(o))
			}
			if op := s.inbox[0].op; op != 3 {
				s.fail("the answer has opcode %d, 3 is due (RFC 5040 section 4.1)", op)
			}
		})
	add("invalidate", "RDMAP-4.1-02 RDMAP-5.3-10", "A Send with Invalidate carries the STag", func(s *session) {
		s.post('V', u32(0xabcdef01))
		if o, ok := s.pump(s.timeout(), func() bool { return len(s.inbox) > 1 }); !ok {
			s.fail("the peer %v", s.close2(o))
		}
		if m := s.inbox[0]; m.op != 4 || m.invalidate != 0xabcdef01 || len(m.data) != 0 {
			s.fail("the peer sends opcode %d with the Invalidate STag %08x and %d octets (RFC 5040 section 4.1)", m.op,
				m.invalidate, len(m.data))
		}
	})
	add("immediate", "EXT-6.2-01 EXT-6.3-01 EXT-6.3-06", "Immediate Data has eight octets", func(s *session) {
		s.post('I', u64(0x0102030405060708))
		if o, ok := s.pump(s.timeout(), func() bool { return len(s.inbox) > 1 }); !ok {
			s.fail("the peer %v", s.close2(o))
		}
		if m := s.inbox[0]; m.op != 8 || binary.BigEndian.Uint64(m.data) != 0x0102030405060708 {
			s.fail("the peer sends opcode %d with %x (RFC 7306 section 6.2)", m.op, m.data)
		}
	})
	add("read-request", "RDMAP-4.4-01 RDMAP-5.2.1-01 RDMAP-5.2.1-02 RDMAP-5.2.1-06", "A Read Request is well formed",
		func(s *session) {
			stag, to := s.demand(100)
			s.send(iwarptest.ReadResponse(stag, to, make([]byte, 100)))
			s.answer('R')
		})
	add("cmp-swap-request", "EXT-5.2.1-01 EXT-5.2.1-06 EXT-5.2.1-07 EXT-5.2.1-11", "An Atomic Request is well formed",
		func(s *session) {
			s.post('C', u32(7), u64(16), u64(5), u64(6))
			if o, ok := s.pump(s.timeout(), func() bool { return len(s.asked) > 0 }); !ok {
				s.fail("the peer %v", s.close2(o))
			}
			m := s.asked[0]
			want := iwarptest.CmpSwap(1, binary.BigEndian.Uint32(m.data[4:]), 7, 16, 5, 6)[18:]
			s.same("the Atomic Request", "RFC 7306 section 5.2.1", m.data, want)
			s.send(iwarptest.AtomicResponse(1, binary.BigEndian.Uint32(m.data[4:]), 9))
			s.same("the original value", "RFC 7306 section 5.2.2", s.answer('C'), u64(9))
		})
	add("reads-within-ord", "RDMAP-6.1-03 RDMAP-6.1-04 MPA2-9.1-06", "No more Reads are outstanding than were agreed",
		func(s *session) {
			const n = 60
			most := 1
			if s.mine.block && s.their.block {
				if most = int(min(s.mine.ird, s.their.ord)); s.mine.ird == protocol.NotNegotiated ||
					s.their.ord == protocol.NotNegotiated {
					s.notApplicable("the depth was left open")
				}
			}
			if !s.mine.block {
				s.notApplicable("revision 1 does not agree on a depth")
			}
			s.manual = true
			s.post('M', u32(0x4242), u32(n))
			done := 0
			for done < n {
				if o, ok := s.pump(s.timeout(), func() bool { return len(s.asked) > done }); !ok {
					s.fail("after %d of %d Reads: the peer %v", done, n, s.close2(o))
				}
				// What is due to come besides comes now.
				if o, _ := s.pump(quietly/30, func() bool { return false }); o.kind != silent {
					s.fail("the peer %v", s.close2(o))
				}
				if out := len(s.asked) - done; out > most {
					s.fail("%d Reads of the peer are outstanding, %d were agreed (RFC 5040 section 6.1)", out, most)
				}
				for ; done < len(s.asked); done++ {
					m := s.asked[done]
					s.send(iwarptest.ReadResponse(binary.BigEndian.Uint32(m.data), binary.BigEndian.Uint64(m.data[4:]),
						[]byte{1}))
				}
			}
			s.manual = false
			s.answer('M')
		})
	return all
}
