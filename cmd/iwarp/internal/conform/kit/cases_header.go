package kit

import (
	"fmt"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// segmentCase sends segments on a connection that has been opened, and judges
// what comes.
type segmentCase struct {
	id, ids, rule, sends string
	needs                ULP
	level                Level
	segments             func(s *session) [][]byte
	legal                []Answer
	then                 func(s *session) // more to see, where the connection goes on
}

func (c segmentCase) build() *Case {
	return &Case{
		ID: c.id, Rules: rules(c.ids), Roles: Either, Needs: c.needs, Level: c.level, Rule: c.rule, Sends: c.sends,
		Legal: c.legal,
		run: func(s *session) {
			s.open()
			if s.k.o.ULP == Target {
				s.awaitAdvert()
			}
			s.send(c.segments(s)...)
			if o := s.judge(); o.kind == goesOn && c.then != nil {
				c.then(s)
			}
		},
	}
}

func one(f func(s *session) []byte) func(*session) [][]byte {
	return func(s *session) [][]byte { return [][]byte{f(s)} }
}

func setBits(seg []byte, i int, clear, set byte) []byte {
	seg[i] = seg[i]&^clear | set
	return seg
}

// kinds of segment that header cases change.
var headerKinds = []struct {
	id     string
	tagged bool
	make   func(s *session) []byte
}{
	{id: "write", tagged: true, make: func(*session) []byte { return iwarptest.Write(0, 0, nil) }},
	{id: "send", make: func(s *session) []byte { return iwarptest.Send(s.msn(0), nil) }},
	{id: "read-request", make: func(s *session) []byte {
		s.reads = append(s.reads, &read{stag: 1})
		return iwarptest.ReadRequest(s.msn(1), 1, 0, 0, 0, 0)
	}},
}

// versionCases have versions and reserved bits that are wrong.
func versionCases() []*Case {
	var all []*Case
	for _, k := range headerKinds {
		for _, v := range []byte{0, 2, 3} {
			code, rule := uint16(0x1206), "The DDP version of an untagged segment is 1"
			if k.tagged {
				code, rule = 0x1104, "The DDP version of a tagged segment is 1"
			}
			all = append(all, segmentCase{
				id: fmt.Sprintf("version/ddp-%d-%s", v, k.id), ids: "DDP-4.1-08 DDP-7.1-11 DDP-7.2-01 R23",
				level: Crasher,
				rule:  rule, sends: fmt.Sprintf("a %s with DV %d", k.id, v),
				segments: one(func(s *session) []byte { return setBits(k.make(s), 0, 3, v) }),
				legal:    legal(terminate("RFC 5041 section 7.2", code)),
			}.build(), segmentCase{
				id: fmt.Sprintf("version/rdmap-%d-%s", v, k.id), ids: "RDMAP-4.1-06 RDMAP-7.2-03 RDMAP-7.1-03 R23",
				level: Crasher,
				rule:  "The RDMAP version is 1", sends: fmt.Sprintf("a %s with RV %d", k.id, v),
				segments: one(func(s *session) []byte { return setBits(k.make(s), 1, 0xc0, v<<6) }),
				legal: legal(terminate("RFC 5040 section 7.2", 0x0205),
					terminate("RFC 5041 section 7.1: no buffer for it", 0x1202)),
			}.build())
		}
		if k.id != "send" { // what a Send meets depends on the ULP: see below
			all = append(all, reservedCases(k.id, k.make, Raw)...)
		}
	}
	all = append(all,
		reservedCases("send", func(s *session) []byte { return iwarptest.Send(s.msn(0), []byte("E")) }, Target)...)
	all = append(all, segmentCase{
		id: "version/send-invalidate-field", ids: "RDMAP-4.1-03", needs: Target, level: Hostile,
		rule:  "The Invalidate STag of a Send without Invalidate is ignored",
		sends: "a Send whose Invalidate STag is that of a region", legal: legal(carryOn("RFC 5040 section 4.1")),
		segments: one(func(s *session) []byte {
			return iwarptest.Untagged(iwarptest.UntaggedHeader{
				Opcode: 3, Last: true, Invalidate: s.region(advert.Victim).STag, MSN: s.msn(0),
			},
				[]byte("E"))
		}),
		then: func(s *session) {
			s.echoed(s.answer('E'), false, 0, nil)
			s.fetch(s.region(advert.Victim), 0, 1) // it is valid still
		},
	}.build())
	for _, v := range []byte{0, 2} { // R23: the very first FPDU
		for _, k := range headerKinds[:2] {
			all = append(all,
				firstCase(fmt.Sprintf("version/first-ddp-%d-%s", v, k.id),
					fmt.Sprintf("a %s with DV %d as the first FPDU", k.id, v),
					func(s *session) []byte { return setBits(k.make(s), 0, 3, v) }, 0x1104, 0x1206),
				firstCase(fmt.Sprintf("version/first-rdmap-%d-%s", v, k.id),
					fmt.Sprintf("a %s with RV %d as the first FPDU", k.id, v),
					func(s *session) []byte { return setBits(k.make(s), 1, 0xc0, v<<6) }, 0x0205, 0x1202))
		}
	}
	all = append(all, firstCase("version/first-opcode-15", "opcode 15 as the first FPDU",
		func(s *session) []byte {
			return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 15, Last: true, MSN: s.msn(0)}, nil)
		}, 0x0206, 0x1202))
	return all
}

func firstCase(id, sends string, segment func(s *session) []byte, codes ...uint16) *Case {
	return &Case{
		ID: id, Rules: rules("R23 RDMAP-7.2-02 RDMAP-7.2-03 DDP-7.2-01"), Roles: Initiator, Level: Crasher,
		Rule: "A bad header in the very first FPDU is an error like any other", Sends: sends,
		Legal: legal(terminate("RFC 5041 section 7.2, RFC 5040 section 7.2", codes...),
			end("RFC 5044 section 7.1.2 rule 4, where it counts as no valid FPDU")),
		run: func(s *session) {
			s.noNudge = true
			s.open(func(h *hello) { h.a, h.rtr = false, 0 })
			s.send(segment(s))
			s.judge()
		},
	}
}

func reservedCases(id string, segment func(s *session) []byte, needs ULP) []*Case {
	var all []*Case
	for _, bit := range []byte{0x04, 0x08, 0x10, 0x20, 0x3c} {
		all = append(all, segmentCase{
			id: fmt.Sprintf("version/ddp-reserved-%02x-%s", bit, id), ids: "DDP-4.1-07", needs: needs, level: Hostile,
			rule:     "Rsvd of DDP is not checked on receive",
			sends:    fmt.Sprintf("a %s with the bits %02x of its DDP control field set", id, bit),
			legal:    legal(carryOn("RFC 5041 section 4.1")),
			segments: one(func(s *session) []byte { return setBits(segment(s), 0, 0, bit) }),
		}.build())
	}
	for _, bit := range []byte{0x10, 0x20, 0x30} {
		all = append(all, segmentCase{
			id: fmt.Sprintf("version/rdmap-reserved-%02x-%s", bit, id), ids: "RDMAP-4.1-07", needs: needs,
			level: Hostile, rule: "Rsv of RDMAP is ignored on receive",
			sends:    fmt.Sprintf("a %s with the bits %02x of its RDMAP control field set", id, bit),
			legal:    legal(carryOn("RFC 5040 section 4.1")),
			segments: one(func(s *session) []byte { return setBits(segment(s), 1, 0, bit) }),
		}.build())
	}
	return all
}

var opcodeNames = [16]string{
	"write", "read-request", "read-response", "send", "send-inv", "send-se", "send-se-inv", "terminate",
	"immediate", "immediate-se", "atomic-request", "atomic-response", "12", "13", "14", "15",
}

// body returns a message of the right length for an opcode.
func body(op uint8) []byte {
	if n, ok := exact[op]; ok {
		return make([]byte, n)
	}
	if op == 7 {
		return []byte{0, 0, 0, 0}
	}
	return nil
}

// opcodeCases have opcodes that do not exist, or not with that T bit or queue.
func opcodeCases() []*Case {
	var all []*Case
	unexpected := terminate("RFC 5040 section 7.2", 0x0206)
	noBuffer := terminate("RFC 5041 section 7.1, where DDP finds no buffer first", 0x1202)
	for op := uint8(12); op < 16; op++ {
		all = append(all, segmentCase{
			id: fmt.Sprintf("opcode/%02d-untagged", op), ids: "RDMAP-4.1-05 RDMAP-7.2-02 EXT-4.1-01 IANA-3.4-01 R23",
			level: Crasher, rule: "An opcode that is not assigned is an error",
			sends: fmt.Sprintf("an untagged message with opcode %d", op),
			segments: one(func(s *session) []byte {
				return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: op, Last: true, MSN: s.msn(0)}, nil)
			}),
			legal: legal(unexpected, noBuffer),
		}.build())
	}
	for op := uint8(1); op < 16; op++ {
		if op == 2 {
			continue
		}
		for _, n := range []int{0, 1} {
			ids := "RDMAP-4.1-04 RDMAP-7.2-02 R23"
			if op > 7 {
				ids += " EXT-4.1-03"
			}
			answers := legal(unexpected)
			if n > 0 {
				answers = append(answers, terminate("RFC 5041 section 7.1, where the STag is checked first", 0x1100))
			}
			if op == 7 {
				answers = append(answers, end("RFC 5040 section 5.4: no Terminate answers a Terminate"))
			}
			all = append(all, segmentCase{
				id: fmt.Sprintf("opcode/%s-tagged-%d", opcodeNames[op], n), ids: ids, level: Crasher,
				rule:     "Tagged messages are Writes and Read Responses",
				sends:    fmt.Sprintf("a tagged message with opcode %d and %d octets, to STag 0", op, n),
				segments: one(func(*session) []byte { return iwarptest.Tagged(op, true, 0, 0, make([]byte, n)) }),
				legal:    answers,
			}.build())
		}
	}
	for _, op := range []uint8{0, 2} {
		for qn := range uint32(4) {
			all = append(all, segmentCase{
				id:  fmt.Sprintf("opcode/%s-untagged-qn-%d", opcodeNames[op], qn),
				ids: "RDMAP-4.1-04 RDMAP-5.1-01 RDMAP-5.2.2-01 RDMAP-7.2-02 R23", level: Crasher,
				rule:  "Writes and Read Responses are tagged",
				sends: fmt.Sprintf("an untagged message with opcode %d on queue %d", op, qn),
				segments: one(func(s *session) []byte {
					return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: op, Last: true, QN: qn, MSN: s.next[qn]},
						nil)
				}),
				legal: legal(unexpected, noBuffer,
					terminate("RFC 5041 section 7.1, where the queue does not exist", 0x1201),
					end("RFC 5040 section 5.4: on queue 2 no Terminate need answer")),
			}.build())
		}
	}
	return append(all, queueMismatches()...)
}

// queueMismatches have opcodes on a queue that is not theirs.
func queueMismatches() []*Case {
	var all []*Case
	for _, op := range []uint8{1, 3, 4, 5, 6, 7, 8, 9, 10, 11} {
		for qn := range uint32(4) {
			if int(qn) == queues[op] {
				continue
			}
			answers := legal(terminate("RFC 5040 sections 4.1 and 7.2", 0x0206),
				terminate("RFC 5041 section 7.1, where DDP finds no such queue, no buffer, or too small a one", 0x1201,
					0x1202, 0x1205))
			if op == 7 || qn == 2 {
				answers = append(answers, end("RFC 5040 section 5.4: no Terminate answers a Terminate"))
			}
			ids := "RDMAP-4.1-08 RDMAP-5.2.1-03 RDMAP-5.3-02 RDMAP-5.4-01 RDMAP-7.2-02"
			if op > 7 {
				ids = "EXT-4.1-03 EXT-6.3-02 EXT-5.2-01 EXT-5.2.2-02 RDMAP-7.2-02"
			}
			all = append(all, segmentCase{
				id: fmt.Sprintf("opcode/%s-qn-%d", opcodeNames[op], qn), ids: ids, level: Crasher,
				rule:  "Each opcode has its queue",
				sends: fmt.Sprintf("opcode %d on queue %d", op, qn), legal: answers,
				segments: one(func(s *session) []byte {
					msn := s.next[qn]
					return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: op, Last: true, QN: qn, MSN: msn},
						body(op))
				}),
			}.build())
		}
	}
	return all
}

// queueCases have queues that do not exist, and MSNs that are not due.
func queueCases() []*Case {
	var all []*Case
	for _, qn := range []uint32{4, 5, 255, 256, 0x10000, 1 << 31, 1<<32 - 1} {
		for _, n := range []int{0, 5} {
			all = append(all, segmentCase{
				id: fmt.Sprintf("queue/qn-%d-%d", qn, n), ids: "DDP-7.1-01 EXT-10.2-01 DDP-7.2-01", level: Hostile,
				rule:  "The queue must exist",
				sends: fmt.Sprintf("a Send of %d octets on queue %d", n, qn),
				segments: one(func(*session) []byte {
					return iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, QN: qn, MSN: 1},
						make([]byte, n))
				}),
				legal: legal(terminate("RFC 5041 section 7.1", 0x1201), terminate("RFC 5040 section 7.2", 0x0206)),
			}.build())
		}
	}
	range3 := terminate("RFC 5041 section 7.1", 0x1203)
	none := terminate("RFC 5041 section 7.1, where it is seen as a buffer that is not there", 0x1202)
	for _, m := range []struct {
		id  string
		msn func(due uint32) uint32
	}{
		{id: "zero", msn: func(uint32) uint32 { return 0 }},
		{id: "skip-1", msn: func(d uint32) uint32 { return d + 1 }},
		{id: "skip-2", msn: func(d uint32) uint32 { return d + 2 }},
		{id: "skip-1000", msn: func(d uint32) uint32 { return d + 1000 }},
		{id: "half", msn: func(d uint32) uint32 { return d + 1<<31 }},
		{id: "before", msn: func(d uint32) uint32 { return d - 1 }},
		{id: "last", msn: func(uint32) uint32 { return 1<<32 - 1 }},
		{id: "swapped", msn: func(d uint32) uint32 { return (d&0xff)<<24 | d>>24 }},
	} {
		all = append(all, segmentCase{
			id: "queue/msn-send-" + m.id, ids: "DDP-4.3-07 DDP-4.3-08 DDP-7.1-06 DDP-7.1-02", level: Hostile,
			rule:  "MSNs of a queue count up by one from 1",
			sends: "a Send with an MSN that is not due: " + m.id, legal: legal(range3, none),
			segments: one(func(s *session) []byte { return iwarptest.Send(m.msn(s.next[0]), nil) }),
		}.build(), segmentCase{
			id: "queue/msn-read-request-" + m.id, ids: "DDP-4.3-07 DDP-4.3-08 DDP-7.1-06 RDMAP-5.2.1-04",
			level: Hostile, rule: "MSNs of a queue count up by one from 1",
			sends: "a Read Request with an MSN that is not due: " + m.id, legal: legal(range3, none),
			segments: one(func(s *session) []byte { return iwarptest.ReadRequest(m.msn(s.next[1]), 1, 0, 0, 0, 0) }),
		}.build())
	}
	return append(all, segmentCase{
		id: "queue/msn-again", ids: "DDP-5.3-05 DDP-7.1-06", needs: Target, level: Hostile,
		rule:  "A message is delivered once: its MSN is not due again",
		sends: "a Send, and once more with its MSN", legal: legal(range3, none),
		segments: func(s *session) [][]byte {
			m := s.msn(0)
			return [][]byte{iwarptest.Send(m, []byte("E")), iwarptest.Send(m, []byte("E"))}
		},
	}.build(), segmentCase{
		id: "queue/msn-swapped-messages", ids: "DDP-4.3-08 DDP-7.1-06", needs: Target, level: Hostile,
		rule:  "On a stream in order, messages of a queue come in the order of their MSNs",
		sends: "two Sends in the wrong order",
		legal: legal(range3, none, carryOn("RFC 5041 section 5.3, where out of order placement is done over any LLP")),
		segments: func(s *session) [][]byte {
			a, b := s.msn(0), s.msn(0)
			return [][]byte{iwarptest.Send(b, []byte("E2")), iwarptest.Send(a, []byte("E1"))}
		},
	}.build())
}

// orderCases cut messages into segments, right and wrong.
func orderCases() []*Case {
	var all []*Case
	add := func(id, ids, rule, sends string, segments func(s *session, m uint32) [][]byte, answers ...Answer) {
		all = append(all, segmentCase{
			id: "order/" + id, ids: ids, needs: Target, level: Hostile, rule: rule, sends: sends, legal: answers,
			segments: func(s *session) [][]byte { return segments(s, s.msn(0)) },
		}.build())
	}
	ten := []byte("Eabcdefghi")
	mo := terminate("RFC 5041 section 7.1", 0x1204, 0x1205)
	unseen := carryOn("RFC 5041 section 5.2: the sink need not verify that a whole message came")
	for _, v := range []uint32{1, 4, 10} {
		add(fmt.Sprintf("mo-%d-first", v), "DDP-4.3-11 DDP-7.1-04", "The first octet of a message has MO 0",
			fmt.Sprintf("a Send of one segment with MO %d", v),
			func(_ *session, m uint32) [][]byte {
				return [][]byte{
					iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m, MO: v}, ten),
				}
			}, mo, unseen)
	}
	for _, v := range []uint32{4096, 1 << 31, 1<<32 - 1} {
		add(fmt.Sprintf("mo-%d-beyond", v), "DDP-7.1-04 DDP-7.1-05 DDP-8.3.1-03", "MO lies within the buffer",
			fmt.Sprintf("a Send of one segment with MO %d", v),
			func(_ *session, m uint32) [][]byte {
				return [][]byte{iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m, MO: v}, ten)}
			}, mo)
	}
	add("mo-gap", "DDP-5.2-05 DDP-7.1-04", "The segments of a message follow each other",
		"a Send of two segments with a gap",
		func(_ *session, m uint32) [][]byte {
			return [][]byte{
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: m}, ten),
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m, MO: 11}, ten),
			}
		}, mo, unseen)
	add("mo-overlap", "DDP-5.2-05 DDP-7.1-04", "The segments of a message follow each other",
		"a Send of two segments that overlap",
		func(_ *session, m uint32) [][]byte {
			return [][]byte{
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: m}, ten),
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m, MO: 9}, ten),
			}
		}, mo, unseen)
	add("mo-again", "DDP-5.2-05 DDP-7.1-04", "The segments of a message follow each other",
		"a Send of two segments, both with MO 0",
		func(_ *session, m uint32) [][]byte {
			return [][]byte{
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: m}, ten),
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m}, ten),
			}
		}, mo, unseen)
	add("last-missing", "DDP-4.1-03 DDP-7.1-06", "A message ends with L=1 before the next one begins",
		"a Send without L, then the next Send",
		func(s *session, m uint32) [][]byte {
			return [][]byte{
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: m}, ten), iwarptest.Send(s.msn(0), ten),
			}
		}, terminate("RFC 5041 section 7.1", 0x1203, 0x1202), carryOn("RFC 5041 section 5.3, where out of order "+
			"placement is done over any LLP"))
	add("after-last", "DDP-4.1-03 DDP-7.1-06", "After L=1 the message is over", "a Send, and one more segment of it",
		func(_ *session, m uint32) [][]byte {
			return [][]byte{
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m}, ten),
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m, MO: 10}, ten),
			}
		}, terminate("RFC 5041 section 7.1", 0x1203, 0x1202, 0x1204))
	good := func(id, ids, rule string, run func(s *session)) {
		all = append(all, &Case{
			ID: "order/" + id, Rules: rules(ids), Roles: Either, Needs: Target, Level: Good, Rule: rule, Sends: id,
			Legal: legal(carryOn("RFC 5041 section 5")),
			run: func(s *session) {
				s.target()
				run(s)
				s.bye()
			},
		})
	}
	for _, parts := range []int{1, 2, 7, 100, 1000} {
		good(fmt.Sprintf("segments-of-%d", parts), "DDP-5.2-04 DDP-5.4-02 DDP-5.4-03 MPA-4.3-12",
			"A message may be cut at any octet", func(s *session) {
				data := append([]byte("E"), content(81, 1000)...)
				m := s.msn(0)
				for at := 0; at < len(data); at += parts {
					end := min(at+parts, len(data))
					if err := s.p.TrySend(iwarptest.Untagged(iwarptest.UntaggedHeader{
						Opcode: 3, Last: end == len(data), MSN: m, MO: uint32(at),
					},
						data[at:end])); err != nil {
						break
					}
				}
				s.echoed(s.answer('E'), false, 0, data[1:])
			})
	}
	good("write-between-segments", "DDP-5.3-02 RDMAP-5.5-01",
		"Tagged segments may come between those of an untagged message", func(s *session) {
			m := s.msn(0)
			s.send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: m}, []byte("Eab")),
				iwarptest.Write(0, 0, nil),
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m, MO: 3}, []byte("cd")))
			s.echoed(s.answer('E'), false, 0, []byte("abcd"))
		})
	good("empty-last-segment", "DDP-5.2-04 DDP-5.4-02", "The last segment of a message may be empty", func(s *session) {
		m := s.msn(0)
		s.send(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: m}, []byte("Eab")),
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: m, MO: 3}, nil))
		s.echoed(s.answer('E'), false, 0, []byte("ab"))
	})
	good("tagged-segments", "DDP-5.2-06 DDP-4.2-08", "A Write may be cut at any octet", func(s *session) {
		r := s.region(advert.All)
		data := content(82, 333)
		for i := range data {
			if err := s.p.TrySend(iwarptest.Tagged(0, i == len(data)-1, r.STag, r.TO+
				uint64(i), data[i:i+1])); err != nil {
				break
			}
		}
		s.same("the region after the Write", "RFC 5041 section 5.2", s.fetch(r, 0, 333), data)
	})
	return all
}

// sendCases are about the Send types, their buffers and Immediate Data.
func sendCases() []*Case {
	var all []*Case
	good := func(id, ids, rule string, run func(s *session)) {
		all = append(all, &Case{
			ID: "send/" + id, Rules: rules(ids), Roles: Either, Needs: Target, Level: Good, Rule: rule, Sends: id,
			Legal: legal(carryOn("RFC 5040 section 5.3")),
			run: func(s *session) {
				s.target()
				run(s)
				s.works("after good messages")
				s.bye()
			},
		})
	}
	data := []byte("solicited")
	cmd := append([]byte("E"), data...)
	good("solicited", "RDMAP-5.3-09 RDMAP-5.3-08", "Send with Solicited Event is delivered, with the event",
		func(s *session) {
			s.send(iwarptest.SendSolicited(s.msn(0), cmd))
			s.echoed(s.answer('E'), true, 0, data)
		})
	good("invalidate", "RDMAP-5.3-10 RDMAP-5.3-11 RDMAP-5.3-12", "Send with Invalidate is delivered, with the STag",
		func(s *session) {
			v := s.region(advert.Victim)
			s.send(iwarptest.SendInvalidate(s.msn(0), v.STag, cmd))
			s.echoed(s.answer('E'), false, v.STag, data)
		})
	good("solicited-invalidate", "RDMAP-5.3-09 RDMAP-5.3-12",
		"Send with Solicited Event and Invalidate is delivered with both", func(s *session) {
			v := s.region(advert.Victim)
			s.send(iwarptest.SendSolicitedInvalidate(s.msn(0), v.STag, cmd))
			s.echoed(s.answer('E'), true, v.STag, data)
		})
	good("empty", "RDMAP-5.3-04 DDP-5.2-07", "A Send may be empty", func(s *session) {
		s.send(iwarptest.Send(s.msn(0), nil))
		s.echo([]byte("after an empty one"))
	})
	for _, se := range []bool{false, true} {
		good(fmt.Sprintf("immediate-%t", se), "EXT-6.2-01 EXT-6.3-02 EXT-6.3-03 EXT-6.3-04 R43",
			"Immediate Data is delivered", func(s *session) {
				v := [8]byte{1, 2, 3, 4, 5, 6, 7, 0xff}
				if s.send(iwarptest.Immediate(s.msn(0), v)); se {
					s.send(iwarptest.ImmediateSolicited(s.msn(0), v))
					s.skipUnsupported('i')
				}
				s.echoed(s.skipUnsupported('i'), se, 0, v[:])
			})
	}
	good("order", "RDMAP-5.3-08 RDMAP-5.5-04 DDP-5.3-06", "Messages are delivered in the order sent", func(s *session) {
		var segs [][]byte
		for i := range 12 {
			segs = append(segs, iwarptest.Send(s.msn(0), []byte{'E', byte(i)}))
		}
		s.send(segs...)
		for i := range 12 {
			s.echoed(s.answer('E'), false, 0, []byte{byte(i)})
		}
	})
	good("buffer-filled", "RDMAP-5.3-06 DDP-7.1-05", "A message may be as large as its buffer", func(s *session) {
		s.echo(content(83, uint32(s.advert.RecvSize-1-5))) // the answer has 5 octets more
	})
	bad := func(id, ids, rule, sends string, segments func(s *session) [][]byte, answers ...Answer) {
		all = append(all, segmentCase{
			id: "send/" + id, ids: ids, needs: Target, level: Hostile, rule: rule, sends: sends, legal: answers,
			segments: segments,
		}.build())
	}
	long := terminate("RFC 5041 section 7.1", 0x1205)
	bad("too-long-by-1", "RDMAP-5.3-07 DDP-7.1-05 DDP-8.3.1-03", "A message larger than its buffer is an error",
		"a Send one octet larger than the target's buffers",
		one(func(s *session) []byte { return iwarptest.Send(s.msn(0), make([]byte, s.advert.RecvSize+1)) }), long)
	bad("too-long-by-far", "RDMAP-5.3-07 DDP-7.1-05 DDP-8.3.1-03", "A message larger than its buffer is an error",
		"a Send of 60000 octets",
		one(func(s *session) []byte { return iwarptest.Send(s.msn(0), make([]byte, 60000)) }), long)
	bad("too-long-second-segment", "RDMAP-5.3-07 DDP-7.1-05 DDP-8.3.1-03",
		"A message larger than its buffer is an error", "a Send whose second segment goes beyond the buffer",
		func(s *session) [][]byte {
			m := s.msn(0)
			return [][]byte{
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: m}, make([]byte, s.advert.RecvSize)),
				iwarptest.Untagged(iwarptest.UntaggedHeader{
					Opcode: 3, Last: true, MSN: m, MO: uint32(s.advert.RecvSize),
				},
					[]byte{1}),
			}
		}, long, terminate("RFC 5041 section 7.1: MO at the buffer's end", 0x1204))
	bad("no-buffer", "DDP-7.1-02 R40 RDMAP-5.3-03 RDMAP-5.3-04",
		"A message without a buffer is an error, also an empty one", "empty Sends, more than there are buffers",
		func(s *session) [][]byte {
			s.command('H')
			var segs [][]byte
			for range s.advert.RecvDepth + 1 {
				segs = append(segs, iwarptest.Send(s.msn(0), nil))
			}
			return segs
		}, terminate("RFC 5041 section 7.1", 0x1202), terminate("RFC 5041 section 7.1, where the MSN is out of the "+
			"range of buffers",
			0x1203))
	return all
}

// skipUnsupported is answer for what an endpoint need not do: RFC 7306.
func (s *session) skipUnsupported(op byte) []byte {
	o, ok := s.pump(s.timeout(), func() bool { return len(s.inbox) > 0 })
	if !ok && o.kind == terminates && o.code == 0x0206 {
		s.notApplicable("the peer does not do RFC 7306: it %v", s.close2(o))
	} else if !ok {
		s.fail("the peer %v (RFC 7306 section 6)", s.close2(o))
	}
	return s.answer(op)
}
