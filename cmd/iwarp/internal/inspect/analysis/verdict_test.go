package analysis_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// changed returns b with octet i set, and its CRC made right again if it is an FPDU.
func changed(b []byte, i int, v byte) []byte {
	b = bytes.Clone(b)
	b[i] = v
	return b
}

func setFPDU(b []byte, i int, v byte) []byte { return iwarptest.FixCRC(changed(b, i, v)) }

// deal is a connection whose startup is right and whose FPDUs a test makes.
type deal struct {
	*talk
	f [2]*iwarptest.Framer
}

// say sends a segment in an FPDU.
func (d *deal) say(dir int, segment []byte) { d.send(dir, d.f[dir].Frame(segment)) }

// hello is the FPDU that an Initiator has to send first.
func (d *deal) hello() { d.say(0, iwarptest.Send(1, []byte("hi"))) }

func newDeal(req, rep byte) *deal {
	d := &deal{talk: newTalk(ownOut())}
	for dir, m := range map[int]byte{0: rep, 1: req} {
		d.f[dir] = &iwarptest.Framer{Markers: m&iwarptest.FlagM != 0, NoCRC: (req|rep)&iwarptest.FlagC == 0}
	}
	d.open()
	return d
}

func enhanced(ird, ord uint16) []byte { return iwarptest.Enhanced(ird, ord, nil) }

// broken is a rule that an analysis.Verdict says is broken, by whom and where.
type broken struct {
	frame uint64
	from  analysis.Side
	rule  string
	at    uint64 // offset of the octet to blame
}

func verdicts(all []analysis.Event) (found []broken) {
	for _, v := range of[*analysis.Verdict](all) {
		found = append(found, broken{v.Frame, v.From, v.Rule, v.Offset})
	}
	return found
}

const (
	c  = iwarptest.FlagC
	mc = iwarptest.FlagM | iwarptest.FlagC
)

// misdeeds are what senders do wrong after a startup in frames 4 and 5. hello is
// frame 6.
var misdeeds = []struct {
	name  string
	flags byte
	play  func(d *deal)
	want  []broken
	then  string // messages; "" is not checked
}{
	{name: "nothing wrong", flags: c, play: func(d *deal) {
		d.hello()
		d.say(1, iwarptest.Send(1, nil))
		d.say(0, iwarptest.SendInvalidate(2, 99, []byte("x")))
		d.say(0, iwarptest.Write(1, 2, nil))
		d.say(0, iwarptest.Immediate(3, [8]byte{1}))
		d.say(0, iwarptest.FetchAdd(1, 7, 8, 16, 1, 0))
		d.say(0, iwarptest.ReadRequest(2, 1, 2, 0, 3, 4))
		d.say(1, iwarptest.AtomicResponse(1, 7, 5))
		d.say(1, iwarptest.ReadResponse(1, 2, nil))
		d.say(1, iwarptest.Terminate(0x1203, iwarptest.Send(9, nil)))
	}},
	{name: "the Responder is first", flags: c, play: func(d *deal) {
		d.say(1, iwarptest.Send(1, nil))
		d.hello()
	}, want: []broken{{frame: 6, from: analysis.Responder, rule: "MPA-7.1.2-14", at: 0}}, then: "Send 0 #1; Send 2 #1"},
	{name: "PAD", flags: c, play: func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, setFPDU(b, 23, 7))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-4.1-03", at: 23}}},
	{name: "CRC", flags: c, play: func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, changed(b, 20, 'H'))
		d.say(0, iwarptest.Send(2, []byte("ho")))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-4.4-15", at: 24}}, then: "Send 2 #1; Send 2 #2"},
	{name: "CRC of a wrong MSN", flags: c, play: func(d *deal) {
		d.hello()
		b := d.f[0].Frame(iwarptest.Send(2, []byte("hi")))
		d.send(0, changed(b, 15, 77))
		d.say(0, iwarptest.Send(3, []byte("ho")))
		d.say(0, iwarptest.Send(5, []byte("ho")))
	}, want: []broken{
		{frame: 7, from: analysis.Initiator, rule: "MPA-4.4-15", at: 52},
		{frame: 9, from: analysis.Initiator, rule: "DDP-4.3-08", at: 96},
	}, then: "Send 2 #1; Send 2 #77; Send 2 #3; Send 2 #5"},
	{name: "CRC of a wrong length", flags: c, play: func(d *deal) {
		d.hello()
		b := d.f[0].Frame(iwarptest.Send(2, []byte("hi")))
		d.send(0, changed(b, 1, 16))
		d.say(0, iwarptest.Send(3, []byte("ho")))
	}, want: []broken{{frame: 7, from: analysis.Initiator, rule: "MPA-4.4-15", at: 48}}, then: "Send 2 #1; Send 2 #3"},
	{name: "length 0", flags: c, play: func(d *deal) {
		d.say(0, nil)
		d.hello()
	}, want: []broken{
		{frame: 6, from: analysis.Initiator, rule: "MPA-3-06", at: 0},
		{frame: 6, from: analysis.Initiator, rule: "DDP-4.4-01", at: 2},
	}, then: "Send 2 #1"},
	{
		name: "too long a ULPDU", flags: c, play: func(d *deal) {
			d.hello()
			b := d.f[0].Frame(iwarptest.Write(1, 0, make([]byte, 64800)))
			d.send(0, b[:40000])
			d.send(0, b[40000:])
		}, want: []broken{{frame: 7, from: analysis.Initiator, rule: "MPA-3-05", at: 28}},
		then: "Send 2 #1; RDMA Write 64800 #0",
	},
	{name: "a short segment", flags: c, play: func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Send(2, nil)[:17])
	}, want: []broken{{frame: 7, from: analysis.Initiator, rule: "DDP-4.4-01", at: 30}}},
	{
		name: "DV", flags: c, play: func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 0, 0x42)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "DDP-4.1-08", at: 30}},
	},
	{
		name: "Rsvd", flags: c, play: func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 0, 0x45)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "DDP-4.1-07", at: 30}},
	},
	{
		name: "RV", flags: c, play: func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 1, 0x83)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.1-06", at: 31}},
	},
	{
		name: "Rsv", flags: c, play: func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 1, 0x53)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.1-07", at: 31}},
	},
	{
		name: "opcode", flags: c, play: func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 1, 0x4c)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-7.2-02", at: 31}},
	},
	{
		name: "T", flags: c, play: func(d *deal) { d.hello(); d.say(0, iwarptest.Tagged(3, true, 1, 2, nil)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.1-04", at: 30}},
	},
	{
		name: "QN", flags: c,
		play: func(d *deal) {
			d.hello()
			d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, QN: 7, MSN: 1}, nil))
		},
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.1-08", at: 36}},
	},
	{
		name: "QN of an immediate", flags: c,
		play: func(d *deal) {
			d.hello()
			d.say(0,
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 8, Last: true, QN: 1, MSN: 1}, make([]byte, 8)))
		},
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "EXT-4.1-03", at: 36}},
	},
	{
		name: "Invalidate STag", flags: c,
		play: func(d *deal) {
			d.hello()
			d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, Invalidate: 9, MSN: 2}, nil))
		},
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.1-03", at: 32}},
	},
	{
		name: "first MSN", flags: c,
		play: func(d *deal) { d.say(0, iwarptest.Send(2, nil)); d.say(0, iwarptest.Send(3, nil)) },
		want: []broken{{frame: 6, from: analysis.Initiator, rule: "DDP-4.3-07", at: 12}}, then: "Send 0 #2; Send 0 #3",
	},
	{
		name: "MSN gap", flags: c, play: func(d *deal) { d.hello(); d.say(0, iwarptest.Send(3, nil)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "DDP-4.3-08", at: 40}},
	},
	{
		name: "one MSN for all queues", flags: c,
		play: func(d *deal) { d.hello(); d.say(0, iwarptest.ReadRequest(2, 1, 2, 3, 4, 5)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "DDP-4.3-07", at: 40}},
	},
	{
		name: "MSN within a message", flags: c, play: func(d *deal) {
			d.hello()
			d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, []byte("ab")))
			d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 3}, []byte("cd")))
		}, want: []broken{{frame: 8, from: analysis.Initiator, rule: "DDP-4.3-10", at: 68}},
		then: "Send 2 #1; Send 2 #2 partial; Send 2 #3",
	},
	{name: "MO", flags: c, play: func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, []byte("ab")))
		d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 3}, []byte("cd")))
	}, want: []broken{{frame: 8, from: analysis.Initiator, rule: "DDP-5.2-05", at: 72}}},
	{
		name: "first MO", flags: c,
		play: func(d *deal) {
			d.hello()
			d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 3}, nil))
		},
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "DDP-4.3-11", at: 44}},
	},
	{name: "RsvdULP changes", flags: c, play: func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, []byte("ab")))
		d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 5, Last: true, MSN: 2, MO: 2}, []byte("cd")))
	}, want: []broken{{frame: 8, from: analysis.Initiator, rule: "DDP-4.3-02", at: 59}}},
	{name: "STag changes", flags: c, play: func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Tagged(0, false, 5, 0, []byte("abcd")))
		d.say(0, iwarptest.Tagged(0, true, 6, 4, []byte("efgh")))
	}, want: []broken{{frame: 8, from: analysis.Initiator, rule: "DDP-4.2-05", at: 56}}},
	{name: "TO does not follow", flags: c, play: func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Tagged(0, false, 5, 0, []byte("abcd")))
		d.say(0, iwarptest.Tagged(0, true, 5, 5, []byte("efgh")))
	}, want: []broken{{frame: 8, from: analysis.Initiator, rule: "DDP-5.2-06", at: 60}}},
	{
		name: "messages are mixed", flags: c, play: func(d *deal) {
			d.hello()
			d.say(0, iwarptest.Tagged(0, false, 5, 0, []byte("abcd")))
			d.say(0, iwarptest.Send(2, nil))
			d.say(0, iwarptest.Tagged(0, true, 5, 4, []byte("efgh")))
		}, want: []broken{{frame: 8, from: analysis.Initiator, rule: "DDP-5.3-01", at: 54}},
		then: "Send 2 #1; Send 0 #2; RDMA Write 8 #0",
	},
	{name: "a Read Request of 27 octets", flags: c, play: func(d *deal) {
		d.hello()
		b := iwarptest.ReadRequest(1, 1, 2, 3, 4, 5)
		d.say(0, b[:len(b)-1])
	}, want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.4-01", at: 28}}},
	{
		name: "an immediate of 9 octets", flags: c,
		play: func(d *deal) { d.hello(); d.say(0, append(iwarptest.Immediate(2, [8]byte{}), 1)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "EXT-6.3-06", at: 28}},
	},
	{
		name: "an unknown atomic", flags: c,
		play: func(d *deal) { d.hello(); d.say(0, iwarptest.AtomicRequest(1, 1, 2, 3, 4, 5, 6, 7, 8)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "EXT-5.2.1-04", at: 51}},
	},
	{
		name: "FetchAdd compares", flags: c,
		play: func(d *deal) { d.hello(); d.say(0, iwarptest.AtomicRequest(1, 0, 2, 3, 4, 5, 6, 7, 8)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "EXT-5.2.1-03", at: 84}},
	},
	{
		name: "a response to nothing", flags: c,
		play: func(d *deal) { d.hello(); d.say(1, iwarptest.ReadResponse(1, 2, nil)) },
		want: []broken{{frame: 7, from: analysis.Responder, rule: "RDMAP-5.2-01", at: 3}},
	},
	{
		name: "an Atomic Response to nothing", flags: c,
		play: func(d *deal) { d.hello(); d.say(1, iwarptest.AtomicResponse(1, 2, 3)) },
		want: []broken{{frame: 7, from: analysis.Responder, rule: "EXT-5.2.2-06", at: 3}},
	},
	{name: "another atomic's response", flags: c, play: func(d *deal) {
		d.say(0, iwarptest.FetchAdd(1, 7, 8, 16, 1, 0))
		d.say(1, iwarptest.AtomicResponse(1, 8, 5))
	}, want: []broken{{frame: 7, from: analysis.Responder, rule: "EXT-5.2.1-02", at: 20}}},
	{name: "a response for another STag", flags: c, play: func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 4, 4, 5))
		d.say(1, iwarptest.ReadResponse(9, 2, make([]byte, 4)))
	}, want: []broken{{frame: 7, from: analysis.Responder, rule: "RDMAP-4.4-02", at: 4}}},
	{name: "fields of a Read Request the wrong way round", flags: c, play: func(d *deal) {
		b := binary.LittleEndian.AppendUint32(nil, 1)
		b = binary.LittleEndian.AppendUint64(b, 0x2000)
		b = binary.LittleEndian.AppendUint32(b, 4)
		b = binary.LittleEndian.AppendUint32(b, 5)
		b = binary.LittleEndian.AppendUint64(b, 6)
		d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 1, Last: true, QN: 1, MSN: 1}, b))
		d.say(1, iwarptest.ReadResponse(1, 0x2000, make([]byte, 4)))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "RDMAP-4.4-01", at: 20}}},
	{name: "too short a response", flags: c, play: func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 5, 4, 5))
		d.say(1, iwarptest.ReadResponse(1, 2, make([]byte, 4)))
	}, want: []broken{{frame: 7, from: analysis.Responder, rule: "RDMAP-5.2.1-09", at: 0}}},
	{name: "too long a response", flags: c, play: func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 5, 4, 5))
		d.say(1, iwarptest.Tagged(2, false, 1, 2, make([]byte, 4)))
		d.say(1, iwarptest.Tagged(2, true, 1, 6, make([]byte, 4)))
	}, want: []broken{{frame: 8, from: analysis.Responder, rule: "RDMAP-5.2.1-09", at: 24}}},
	{name: "responses out of order", flags: c, play: func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 4, 4, 5))
		d.say(0, iwarptest.ReadRequest(2, 3, 4, 4, 4, 5))
		d.say(1, iwarptest.ReadResponse(3, 4, make([]byte, 4)))
		d.say(1, iwarptest.ReadResponse(1, 2, make([]byte, 4)))
	}, want: []broken{{frame: 8, from: analysis.Responder, rule: "RDMAP-5.2.2-04", at: 3}}},
	{name: "a Read answered before an atomic", flags: c, play: func(d *deal) {
		d.say(0, iwarptest.FetchAdd(1, 7, 8, 16, 1, 0))
		d.say(0, iwarptest.ReadRequest(2, 3, 4, 4, 4, 5))
		d.say(1, iwarptest.ReadResponse(3, 4, make([]byte, 4)))
	}, want: []broken{{frame: 8, from: analysis.Responder, rule: "RDMAP-5.2.2-04", at: 3}}},
	{name: "after a Terminate", flags: c, play: func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Terminate(0x0206, nil))
		d.say(0, iwarptest.Send(2, nil))
	}, want: []broken{{frame: 8, from: analysis.Initiator, rule: "RDMAP-5.4-07", at: 56}}},
	{name: "a Terminate as Linux siw sends it", flags: c, play: func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 4, 4, 5))
		b := iwarptest.ReadResponse(1, 2, make([]byte, 4))
		d.say(1, b)
		x := iwarptest.Terminate(0x1101, b)
		x[20], x[23], x[24+1-2] = 0x03, 0, 0
		binary.BigEndian.PutUint16(x[20:], 0x0300)
		binary.BigEndian.PutUint16(x[22:], 4)
		d.say(0, x)
	}, want: []broken{
		{frame: 8, from: analysis.Initiator, rule: "RDMAP-4.8-04", at: 74},
		{frame: 8, from: analysis.Initiator, rule: "RDMAP-4.8-01", at: 76},
		{frame: 8, from: analysis.Initiator, rule: "RDMAP-4.8-05", at: 76},
	}},
	{
		name: "a Terminate with an unknown error", flags: c,
		play: func(d *deal) { d.hello(); d.say(0, iwarptest.Terminate(0x1200, nil)) },
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.8-02", at: 48}},
	},
	{
		name: "a Terminate without header", flags: c,
		play: func(d *deal) {
			d.hello()
			d.say(0, iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 7, Last: true, QN: 2, MSN: 1}, []byte{1, 1}))
		},
		want: []broken{{frame: 7, from: analysis.Initiator, rule: "RDMAP-4.8-01", at: 28}},
	},
	{name: "Marker: reserved octets", flags: mc, play: func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, setFPDU(b, 1, 7))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-4.2-02", at: 0}}},
	{name: "Marker: low bits", flags: mc, play: func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, make([]byte, 600)))
		d.send(0, setFPDU(b, 515, b[515]|1))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-4.2-04", at: 512}}, then: "Send 600 #1"},
	{name: "Marker: pointer", flags: mc, play: func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, make([]byte, 600)))
		d.send(0, setFPDU(b, 515, 0x80))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-4.3-05", at: 512}}, then: "Send 600 #1"},
	{name: "Marker: little-endian", flags: mc, play: func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, make([]byte, 600)))
		b[514], b[515] = b[515], b[514]
		d.send(0, iwarptest.FixCRC(b))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-4.2-01", at: 512}}, then: "Send 600 #1"},
	{name: "Marker: the first is not 0", flags: mc, play: func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, setFPDU(b, 3, 4))
	}, want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-4.3-08", at: 0}}, then: "Send 2 #1"},
	{
		name: "Markers that nobody asked for", flags: c,
		play: func(d *deal) { d.f[0].Markers = true; d.hello(); d.say(0, iwarptest.Send(2, make([]byte, 600))) },
		want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-7.1.1-07", at: 0}},
		then: "Send 2 #1; Send 600 #2",
	},
	{
		name: "no Markers", flags: mc,
		play: func(d *deal) { d.f[0].Markers = false; d.hello(); d.say(0, iwarptest.Send(2, make([]byte, 600))) },
		want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA-7.1.1-06", at: 0}},
		then: "Send 2 #1; Send 600 #2",
	},
}

func TestVerdicts(t *testing.T) {
	for _, tt := range misdeeds {
		t.Run(tt.name, func(t *testing.T) {
			d := newDeal(tt.flags, tt.flags)
			d.send(0, iwarptest.Request(tt.flags, 1, nil))
			d.send(1, iwarptest.Reply(tt.flags, 1, nil))
			tt.play(d)
			d.close()
			all, _, err := events(t, d.out.b, &analysis.ReaderOptions{FPDUs: true})
			if err != nil || !slices.Equal(verdicts(all), tt.want) {
				t.Errorf("%v\n got %+v\nwant %+v", err, verdicts(all), tt.want)
			}
			if tt.then != "" && ops(all) != tt.then {
				t.Errorf("messages\n got %s\nwant %s", ops(all), tt.then)
			}
			for _, v := range of[*analysis.Verdict](all) {
				if v.Level == "" || v.RFC == 0 || v.Section == "" || v.Summary == "" || v.Expected == "" ||
					v.Seen == "" || !strings.HasPrefix(v.URL(), "https://www.rfc-editor.org/rfc/rfc") {
					t.Errorf("something is missing in %+v", v)
				}
			}
			checkFields(t, all)
		})
	}
}

// checkFields looks whether the fields of an FPDU cover it.
func checkFields(t *testing.T, all []analysis.Event) {
	t.Helper()
	for _, f := range of[*analysis.FPDU](all) {
		seen := make([]int, len(f.Octets))
		markers := 0
		for _, x := range f.Fields() {
			if x.Offset < 0 || x.Length <= 0 || x.Offset+x.Length > len(f.Octets) {
				t.Fatalf("field %+v of an FPDU of %d octets", x, len(f.Octets))
			}
			if x.Name == "Marker" {
				markers++
				continue
			}
			for i := range x.Length {
				seen[x.Offset+i]++
			}
		}
		for _, m := range f.Markers {
			for i := range 4 {
				seen[m+i] = 1
			}
		}
		if markers != len(f.Markers) {
			t.Errorf("%d of %d Markers are listed", markers, len(f.Markers))
		}
		for i, n := range seen {
			if n != 1 {
				t.Fatalf("octet %d of the FPDU at %d is in %d fields: %+v", i, f.Offset, n, f.Fields())
			}
		}
	}
}

func TestVerdictsOnRTR(t *testing.T) {
	for _, tt := range []struct {
		name    string
		segment []byte
		want    []broken
		rtr     bool
	}{
		{
			name: "a zero-length Write", segment: iwarptest.Write(1, 0, nil),
			rtr: true,
		},
		{
			name:    "a zero-length Read, which the Responder does not support",
			segment: iwarptest.ReadRequest(1, 1, 0, 0, 1, 0),
			want:    []broken{{frame: 6, from: analysis.Initiator, rule: "MPA2-9.2-08", at: 3}},
		},
		{
			name: "a Send", segment: iwarptest.Send(1, []byte("hi")),
			want: []broken{{frame: 6, from: analysis.Initiator, rule: "MPA2-5-02", at: 3}},
		},
	} {
		d := newDeal(c, c)
		d.send(0, iwarptest.Request(0x50, 2, enhanced(0x8008, 0xc008)))
		d.send(1, iwarptest.Reply(0x50, 2, enhanced(0x8008, 0x8008)))
		d.say(0, tt.segment)
		all, _, _ := events(t, d.out.b, nil)
		if got := verdicts(all); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
		if m := of[*analysis.Message](all); len(m) != 1 || m[0].RTR != tt.rtr {
			t.Errorf("%s: RTR: %+v", tt.name, m)
		}
	}
}

func TestVerdictOnDepth(t *testing.T) {
	d := newDeal(c, c)
	d.send(0, iwarptest.Request(0x50, 2, enhanced(1, 4)))
	d.send(1, iwarptest.Reply(0x50, 2, enhanced(2, 1)))
	for i := range uint32(3) {
		d.say(0, iwarptest.ReadRequest(i+1, i, 0, 4, 4, 5))
	}
	d.say(1, iwarptest.ReadRequest(1, 77, 0, 4, 4, 5))
	for i := range uint32(3) {
		d.say(1, iwarptest.ReadResponse(i, 0, make([]byte, 4)))
	}
	d.say(0, iwarptest.ReadRequest(4, 9, 0, 4, 4, 5))
	all, _, _ := events(t, d.out.b, nil)
	want := []broken{{frame: 8, from: analysis.Initiator, rule: "RDMAP-6.1-04", at: 106}}
	if got := verdicts(all); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	n := of[*analysis.Negotiated](all)[0]
	if n.InitiatorDepth != 2 || n.ResponderDepth != 1 {
		t.Errorf("%+v", n)
	}
	s := of[*analysis.Closed](all)[0].Conn
	if s.From[0].MaxOutstanding != 3 || s.Reads.Count != 3 || s.Reads.Min == 0 {
		t.Errorf("%+v", s)
	}
}

func TestVerdictOnOctetsBehindTheRequest(t *testing.T) {
	d := newDeal(c, c)
	d.send(0, iwarptest.Request(c, 1, nil), d.f[0].Frame(iwarptest.Send(1, []byte("hi"))))
	d.send(1, iwarptest.Reply(c, 1, nil))
	all, _, _ := events(t, d.out.b, nil)
	want := []broken{{frame: 4, from: analysis.Initiator, rule: "MPA-7.1.2-09", at: 0}}
	if got := verdicts(all); !slices.Equal(got, want) || ops(all) != "Send 2 #1" {
		t.Errorf("got %+v, want %+v; %s", got, want, ops(all))
	}
}

// TestForeignMarkers reads a stream whose Markers are a word late and little-endian.
func TestForeignMarkers(t *testing.T) {
	d := newDeal(iwarptest.FlagM, iwarptest.FlagM)
	d.send(0, iwarptest.Request(iwarptest.FlagM, 1, nil))
	d.send(1, iwarptest.Reply(iwarptest.FlagM, 1, nil))
	var b []byte
	due := 0 // octets that are no Marker until the next Marker
	for msn := range uint32(20) {
		clean := (&iwarptest.Framer{NoCRC: true}).Frame(iwarptest.Send(msn+1, bytes.Repeat([]byte{7}, 300)))
		start := len(b)
		for i := 0; i < len(clean); i += 4 {
			if due == 0 {
				p := uint16(0)
				if i > 0 {
					p = uint16(len(b) - start)
				} else {
					start += 4
				}
				b = append(b, 0, 0, byte(p), byte(p>>8))
				due = 512
			}
			b = append(b, clean[i:i+4]...)
			due -= 4
		}
	}
	for ; len(b) > 0; b = b[min(1000, len(b)):] {
		d.send(0, b[:min(1000, len(b))])
	}
	d.close()
	all, _, _ := events(t, d.out.b, nil)
	if n := len(of[*analysis.Message](all)); n != 20 {
		t.Errorf("%d messages: %s", n, ops(all))
	}
	got := of[*analysis.Closed](all)[0].Conn.Verdicts
	if got["MPA-4.3-04"] != 12 || got["MPA-4.2-01"] != 12 || len(got) != 2 {
		t.Errorf("%v\n%+v", got, verdicts(all))
	}
}

func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range analysis.Rules() {
		if r.RFC == 0 || r.Level == "" || r.Text == "" || seen[r.ID] {
			t.Errorf("%+v", r)
		}
		seen[r.ID] = true
	}
	if len(seen) < 40 {
		t.Errorf("%d rules", len(seen))
	}
}
