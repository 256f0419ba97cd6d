package kit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
)

const (
	badRequest = "RFC 5044 section 7.1.2 rule 2"
	badReply   = "RFC 5044 section 7.1.2 rule 3"
	// patienceSection marks answers that a peer may take its time for.
	patienceSection = "RFC 5044 section 7.1.2 rules 8 and 10"
)

// startupCases are Requests that are wrong.
func startupCases() []*Case {
	var all []*Case
	bad := func(id, ids, rule, sends string, octets func(req []byte) []byte, answers ...Answer) {
		all = append(all, &Case{
			ID: "request/" + id, Rules: rules(ids), Roles: Initiator, Level: Crasher, Rule: rule, Sends: sends,
			Legal: answers,
			run: func(s *session) {
				s.connect()
				h := s.base()
				req := iwarptest.Request(h.allFlags(), h.rev, h.data())
				s.raw(sends, octets(bytes.Clone(req)))
				o := s.awaitReply(req)
				if o.kind == silent {
					o, _ = s.pump(s.k.o.Patience, func() bool { return false })
				}
				s.verdict(o)
			},
		})
	}
	gone := end(badRequest)
	for i := range 16 {
		bad(fmt.Sprintf("key-octet-%02d", i), "MPA-7.1.1-01 MPA-7.1.1-02 MPA-7.1.2-05 MPA-7.1.2-15 R07",
			"A Request with another key is badly formed: close TCP", fmt.Sprintf("a Request with octet %d of its key "+
				"changed",
				i),
			func(req []byte) []byte { req[i] ^= 0x20; return req }, gone)
	}
	bad("key-of-a-reply", "MPA-7.1.2-19 MPA-7.1.1-02", "The key of a Reply where a Request is due: close TCP",
		"a frame with the key of a Reply",
		func(req []byte) []byte { copy(req, "MPA ID Rep Frame"); return req }, gone)
	for _, text := range []struct{ id, octets string }{
		{id: "http", octets: "GET / HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n"},
		{id: "tls", octets: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + string(make([]byte, 64))},
		{id: "zeros", octets: string(make([]byte, 600))},
		{id: "fpdu", octets: string(iwarptest.FPDU(iwarptest.Send(1, []byte("no startup at all"))))},
	} {
		bad("text-"+text.id, "MPA-7.1.1-02 MPA-7.1.2-05 R06 R07", "What is no Request is badly formed: close TCP",
			"octets of another protocol: "+text.id,
			func([]byte) []byte { return []byte(text.octets) }, gone)
	}
	for _, rev := range []byte{3, 4, 127, 255} {
		bad(fmt.Sprintf("rev-%d", rev), "MPA-7.1.1-15 MPA2-6-04 R07",
			"A revision that is not known: close TCP, or answer with one that is",
			fmt.Sprintf("a Request with Rev %d", rev), func(req []byte) []byte { req[17] = rev; return req },
			end("RFC 5044 section 7.1.1"), accept("RFC 5044 section 7.1.1, where the peer can "+
				"interoperate"), reject("RFC 5044 section 7.1.2 rule 2"))
	}
	bad("rev-0", "MPA-7.1.1-15 MPA-C.2-01 MPA-C.2.3-01",
		"A Request of the RDMA Consortium: close, answer Rev 1 and close, or be permissive",
		"a Request with Rev 0, M=1 and C=1", func(req []byte) []byte { return iwarptest.Request(0xc0, 0, nil) },
		end("RFC 5044 section 7.1.1"), accept("RFC 5044 appendix C.2"), reject("RFC 5044 appendix C.2"))
	for _, n := range []uint16{513, 514, 1024, 0x7fff, 0x8000, 0xffff} {
		bad(fmt.Sprintf("pd-length-%d", n), "MPA-7.1.1-18 MPA-7.1.2-21 MPA-7.1.2-24 R07",
			"PD_Length above 512: close TCP",
			fmt.Sprintf("a Request with PD_Length %d and 512 octets behind it", n),
			func(req []byte) []byte {
				req = append(req[:20:20], make([]byte, 512)...)
				binary.BigEndian.PutUint16(req[18:], n)
				return req
			}, gone)
	}
	for n := range 4 {
		bad(fmt.Sprintf("enhanced-without-block-%d", n), "MPA2-6-06 MPA-7.1.2-24 R14",
			"With S set, Private Data begins with the enhanced block",
			fmt.Sprintf("a Request Rev 2 with S=1 and %d octets of Private Data", n),
			func([]byte) []byte { return iwarptest.Request(iwarptest.FlagC|iwarptest.FlagS, 2, make([]byte, n)) },
			end("RFC 6581 sections 6 and 10"), reject("RFC 5044 section 7.1.2 rule 2"))
	}
	return append(all, gluedCases()...)
}

// gluedCases are Requests with more behind them than a Request has.
func gluedCases() []*Case {
	glued := func(id, sends string, rest []byte) *Case {
		answers := legal(end("RFC 5044 section 7.1.2: nothing may follow a Request before the Reply"),
			accept("RFC 5044 section 7.1.2"))
		return &Case{
			ID: "request/glued-" + id, Rules: rules("MPA-7.1.2-09 MPA-7.1.1-18 R04 R07"), Roles: Initiator,
			Level: Crasher,
			Rule:  "Octets behind a Request: the peer closes, or takes them for the first FPDU", Sends: sends,
			Legal: answers,
			run: func(s *session) {
				s.connect()
				h := s.base()
				req := iwarptest.Request(h.allFlags(), h.rev, h.data())
				s.raw(sends, req, rest)
				s.verdict(s.awaitReply(req))
			},
		}
	}
	write := iwarptest.FPDU(iwarptest.Write(0, 0, nil))
	return []*Case{
		glued("octet", "a Request and one octet more", []byte{0}),
		glued("fpdu", "a Request and an FPDU in one write", write),
		glued("half-fpdu", "a Request and half an FPDU in one write", write[:9]),
		glued("request", "two Requests in one write", iwarptest.Request(iwarptest.FlagC, 1, nil)),
	}
}

// replyCases are Replies that are wrong.
func replyCases() []*Case {
	var all []*Case
	bad := func(id, ids, rule, sends string, octets func(reply []byte) []byte, answers ...Answer) {
		all = append(all, &Case{
			ID: "reply/" + id, Rules: rules(ids), Roles: Responder, Level: Crasher, Rule: rule, Sends: sends,
			Legal: answers,
			run: func(s *session) {
				req := s.request()
				h := s.answerTo(s.their)
				reply := iwarptest.Reply(h.allFlags(), h.rev, h.data())
				sent := octets(bytes.Clone(reply))
				s.raw(sends, sent)
				s.p.Agree(req, reply, false)
				o, _ := s.pump(s.timeout(), func() bool { return s.frames > 0 })
				s.verdict(s.close2(o))
			},
		})
	}
	gone := end(badReply)
	for i := range 16 {
		bad(fmt.Sprintf("key-octet-%02d", i), "MPA-7.1.1-03 MPA-7.1.1-04 MPA-7.1.2-11 MPA-7.1.2-15",
			"A Reply with another key is badly formed: close TCP",
			fmt.Sprintf("a Reply with octet %d of its key changed", i), func(b []byte) []byte {
				b[i] ^= 0x20
				return b
			}, gone)
	}
	bad("key-of-a-request", "MPA-7.1.2-19 MPA-7.1.1-04",
		"A Request where a Reply is due: both ends are initiators: close TCP", "a frame with the key of a Request",
		func(b []byte) []byte { copy(b, "MPA ID Req Frame"); return b }, gone)
	for _, text := range []struct{ id, octets string }{
		{id: "http", octets: "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"},
		{id: "ssh", octets: "SSH-2.0-OpenSSH_9.2\r\n"},
		{id: "zeros", octets: string(make([]byte, 600))},
	} {
		bad("text-"+text.id, "MPA-7.1.1-04 MPA-7.1.2-11 R06", "What is no Reply is badly formed: close TCP",
			"octets of another protocol: "+text.id,
			func([]byte) []byte { return []byte(text.octets) }, gone)
	}
	for _, rev := range []byte{3, 127, 255} {
		bad(fmt.Sprintf("rev-%d", rev), "MPA-7.1.1-15 MPA-7.1.2-11", "A revision that is not known: close TCP",
			fmt.Sprintf("a Reply with Rev %d", rev),
			func(b []byte) []byte { b[17] = rev; return b }, end("RFC 5044 section 7.1.1"))
	}
	bad("rev-0", "MPA-7.1.1-15 MPA-C.2-01", "A Reply of the RDMA Consortium: close, or be permissive",
		"a Reply with Rev 0",
		func([]byte) []byte {
			return iwarptest.Reply(0xc0, 0, nil)
		}, end("RFC 5044 appendix C.2"), carryOn("RFC 5044 appendix C.2.3"))
	for _, n := range []uint16{513, 1024, 0x8000, 0xffff} {
		bad(fmt.Sprintf("pd-length-%d", n), "MPA-7.1.1-18 MPA-7.1.2-21 MPA-7.1.2-23 MPA-7.1.2-24",
			"PD_Length above 512: close TCP",
			fmt.Sprintf("a Reply with PD_Length %d and 512 octets behind it", n),
			func(b []byte) []byte {
				b = append(b[:20:20], make([]byte, 512)...)
				binary.BigEndian.PutUint16(b[18:], n)
				return b
			}, gone)
	}
	for n := range 4 {
		bad(fmt.Sprintf("enhanced-without-block-%d", n), "MPA2-6-06 MPA-7.1.2-24 R14",
			"With S set, Private Data begins with the enhanced block",
			fmt.Sprintf("a Reply Rev 2 with S=1 and %d octets of Private Data", n),
			func([]byte) []byte { return iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagS, 2, make([]byte, n)) },
			end(badReply), terminate("RFC 6581 section 9.3", 0x2005, 0x2004))
	}
	all = append(all, rejectCases()...)
	return all
}

// rejectCases are Replies that refuse the connection.
func rejectCases() []*Case {
	var all []*Case
	for _, pd := range []struct {
		id    string
		data  []byte
		level Level
	}{
		{id: "", level: Hostile},
		{id: "-with-private-data", data: []byte("busy"), level: Hostile},
		{id: "-with-508-octets", data: make([]byte, 508), level: Crasher},
	} {
		all = append(all, &Case{
			ID: "reply/reject" + pd.id, Rules: rules("MPA-7.1.1-12 MPA-7.1.2-12 MPA-7.1.2-03 MPA-7.1.4.2-02"),
			Roles: Responder, Level: pd.level,
			Rule:  "After a Reply with R=1 the initiator leaves MPA: it sends no FPDU, and closes or keeps TCP",
			Sends: "a Reply with R=1",
			Legal: legal(end("RFC 5044 section 7.1.4.2"), sayLess("RFC 5044 section 7.1.2 rule 3")),
			run: func(s *session) {
				req := s.request()
				h := s.answerTo(s.their)
				h.flags |= iwarptest.FlagR
				h.pd = pd.data
				s.respond(req, h)
				o, _ := s.pump(4*quietly, func() bool { return s.frames > 0 })
				s.verdict(o)
			},
		})
	}
	return all
}

// splitCases cut a good startup frame in two, at each octet, and into single
// octets.
func splitCases() []*Case {
	var all []*Case
	add := func(role Role, at int) {
		kind, id := "request", "RFC 5044 section 7.1.1"
		if role == Responder {
			kind = "reply"
		}
		name, what := fmt.Sprintf("split-%02d", at), fmt.Sprintf("the frame in two writes, cut before octet %d", at)
		if at == 0 {
			name, what = "octet-by-octet", "the frame, one octet a write"
		}
		all = append(all, &Case{
			ID: kind + "/" + name, Rules: rules("MPA-7.1.2-21 MPA-7.1.1-17 R06 R07"), Roles: role, Level: Hostile,
			Rule: "A startup frame counts when all of it has come, in whatever pieces", Sends: what,
			Legal: legal(carryOn(id)),
			run: func(s *session) {
				if role == Initiator {
					s.connect()
					s.mine = s.base()
					s.mine.pd = []byte("split")
					frame := iwarptest.Request(s.mine.allFlags(), s.mine.rev, s.mine.data())
					s.pieces(frame, at)
					if o := s.awaitReply(frame); o.kind != replies {
						s.fail("the peer %v, where a Reply is due (RFC 5044 section 7.1.2)", o)
					}
					s.begin()
				} else {
					req := s.request()
					s.mine = s.answerTo(s.their)
					s.mine.pd = []byte("split")
					frame := iwarptest.Reply(s.mine.allFlags(), s.mine.rev, s.mine.data())
					s.pieces(frame, at)
					s.p.Agree(req, frame, false)
					s.agreeReads()
					s.firstFrame()
				}
				s.judge()
			},
		})
	}
	for at := range 26 { // 20 octets, the block and a little Private Data
		add(Initiator, at)
		add(Responder, at)
	}
	return all
}

// pieces writes a frame in two pieces, or with at 0 in single octets. The pause
// lets the first go in a TCP segment of its own.
func (s *session) pieces(frame []byte, at int) {
	const pause = 2 * time.Millisecond
	if at > 0 {
		at = min(at, len(frame)-1)
		s.raw("the first piece", frame[:at])
		time.Sleep(pause)
		s.raw("the rest", frame[at:])
		return
	}
	for i := range frame {
		s.raw(fmt.Sprintf("octet %d", i), frame[i:i+1])
		time.Sleep(pause)
	}
}

// stageCases end, reset or stall a startup at each stage.
func stageCases() []*Case {
	var all []*Case
	for _, n := range []int{0, 1, 8, 15, 16, 17, 18, 19, 20, 22, 24} {
		all = append(all, stage(n, "fin"), stage(n, "reset"))
	}
	for _, n := range []int{0, 1, 16, 19, 23} {
		all = append(all, stage(n, "silence"))
	}
	all = append(all, stage(0, "trickle"))
	for _, n := range []int{0, 1, 16, 19, 20, 23} {
		all = append(all, replyStage(n, "fin"), replyStage(n, "reset"))
	}
	all = append(all, replyStage(0, "silence"), replyStage(10, "silence"), replyStage(20, "silence"))
	return all
}

func stage(n int, how string) *Case {
	ids := map[string]string{
		"fin": "MPA-7.1.2-05 MPA-7.1.1-18 R08", "reset": "MPA-8-01 R08", "silence": "MPA-7.1.2-25 MPA-7.1.2-20 R11",
		"trickle": "MPA-7.1.2-25 R11",
	}
	section := badRequest
	if how == "silence" || how == "trickle" {
		section = patienceSection
	}
	answers := legal(end(section))
	if how == "reset" {
		answers = nil
	}
	return &Case{
		ID: fmt.Sprintf("request/%s-after-%02d", how, n), Rules: rules(ids[how]), Roles: Initiator, Level: Crasher,
		Rule: "A startup that is not finished ends: by the peer's FIN or reset at once, and by a timeout over the " +
			"whole exchange",
		Sends: fmt.Sprintf("%d octets of a Request, then %s", n, how), Legal: answers,
		run: func(s *session) {
			s.connect()
			s.mine = s.base()
			s.mine.pd = []byte("never finished")
			frame := iwarptest.Request(s.mine.allFlags(), s.mine.rev, s.mine.data())
			if n > 0 {
				s.raw("a part of a Request", frame[:n])
			}
			s.stop(how, frame[n:])
		},
	}
}

func replyStage(n int, how string) *Case {
	ids := map[string]string{"fin": "MPA-7.1.2-11 MPA-8-01", "reset": "MPA-8-01", "silence": "MPA-7.1.2-25 R11"}
	section := badReply
	if how == "silence" {
		section = patienceSection
	}
	answers := legal(end(section))
	if how == "reset" {
		answers = nil
	}
	return &Case{
		ID: fmt.Sprintf("reply/%s-after-%02d", how, n), Rules: rules(ids[how]), Roles: Responder, Level: Crasher,
		Rule: "A startup that is not finished ends: by the peer's FIN or reset at once, and by a timeout over the " +
			"whole exchange",
		Sends: fmt.Sprintf("%d octets of a Reply, then %s", n, how), Legal: answers,
		run: func(s *session) {
			s.request()
			h := s.answerTo(s.their)
			h.pd = []byte("never finished")
			frame := iwarptest.Reply(h.allFlags(), h.rev, h.data())
			if n > 0 {
				s.raw("a part of a Reply", frame[:n])
			}
			s.stop(how, nil)
		},
	}
}

// stop ends a startup, or a stream, as how says.
func (s *session) stop(how string, rest []byte) {
	d := s.timeout()
	switch how {
	case "reset":
		s.note("-> RST")
		_ = s.p.Reset()
		return
	case "fin":
		s.note("-> FIN")
		s.p.CloseWrite()
	case "trickle":
		s.trickle(rest)
		return
	default:
		d = s.k.o.Patience
	}
	o := s.startupEnd(d)
	if o.kind == silent && how == "silence" {
		s.unclear("the peer is still waiting after %v: a timeout is a SHOULD (%s)", d, patienceSection)
	}
	s.verdict(o)
}

func (s *session) startupEnd(d time.Duration) outcome {
	_, err := s.p.AwaitStartup(d)
	if err == nil {
		return outcome{kind: replies}
	}
	return startupOutcome(err)
}

// trickle sends an octet now and then for as long as the peer listens.
func (s *session) trickle(rest []byte) {
	const every = 200 * time.Millisecond
	start := time.Now()
	for i := 0; time.Since(start) < s.k.o.Patience; i++ {
		if i < len(rest)-1 {
			s.raw("an octet", rest[i:i+1])
		}
		if o := s.startupEnd(every); o.kind != silent {
			s.verdict(o)
			return
		}
	}
	s.unclear("the peer is still waiting after %v: a timeout is a SHOULD (%s)", s.k.o.Patience, patienceSection)
}
