package analysis_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// changed gives b with octet i set, and its CRC made right again if it is an FPDU.
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

// startups are pairs of startup frames and the rules that they break. Frame 4 is the
// Request and frame 5 the Reply.
var startups = []struct {
	name     string
	req, rep []byte
	want     string
}{
	{"right, revision 1", iwarptest.Request(0x40, 1, nil), iwarptest.Reply(0x40, 1, nil), ""},
	{"right, revision 2", iwarptest.Request(0x50, 2, enhanced(0x8008, 0xc004)), iwarptest.Reply(0x50, 2, enhanced(0x8004, 0x8008)), ""},
	{"reserved bits", iwarptest.Request(0x41, 1, nil), iwarptest.Reply(0x42, 1, nil), "4 initiator MPA-7.1.1-13 at 16; 5 responder MPA-7.1.1-13 at 16"},
	{"S in revision 1 is reserved", iwarptest.Request(0x50, 1, nil), iwarptest.Reply(0x40, 1, nil), "4 initiator MPA-7.1.1-13 at 16"},
	{"R in a Request", iwarptest.Request(0x60, 1, nil), iwarptest.Reply(0x40, 1, nil), "4 initiator MPA-7.1.1-11 at 16"},
	{"revisions differ", iwarptest.Request(0x40, 1, nil), iwarptest.Reply(0x40, 2, nil), "5 responder MPA-7.1.1-15 at 17"},
	{"revision 3", iwarptest.Request(0x40, 3, nil), iwarptest.Reply(0x60, 1, nil), "4 initiator MPA-7.1.1-14 at 17"},
	{"Private Data too long", iwarptest.Request(0x40, 1, make([]byte, 513)), nil, "4 initiator MPA-7.1.1-18 at 18"},
	{"no Reply but a Request", iwarptest.Request(0x40, 1, nil), iwarptest.Request(0x40, 1, nil), "5 responder MPA-7.1.1-03 at 0"},
	{"no Reply but text", iwarptest.Request(0x40, 1, nil), []byte("HTTP/1.1 400 Bad Request\r\n"), "5 responder MPA-7.1.1-03 at 0"},
	{"enhanced, the Reply not", iwarptest.Request(0x50, 2, enhanced(8, 8)), iwarptest.Reply(0x40, 2, nil), "5 responder MPA2-10-01 at 16"},
	{"not enhanced, the Reply is", iwarptest.Request(0x40, 2, nil), iwarptest.Reply(0x50, 2, enhanced(8, 8)), "5 responder MPA2-10-02 at 16"},
	{"A is not copied", iwarptest.Request(0x50, 2, enhanced(0x8008, 0xc008)), iwarptest.Reply(0x50, 2, enhanced(8, 8)), "5 responder MPA2-9.2-04 at 20"},
	{"B without A", iwarptest.Request(0x50, 2, enhanced(0x4008, 8)), iwarptest.Reply(0x50, 2, enhanced(8, 8)), "4 initiator MPA2-9.2-10 at 20"},
	{"A without RTR kinds", iwarptest.Request(0x50, 2, enhanced(0x8008, 8)), iwarptest.Reply(0x50, 2, enhanced(0x8008, 0x8008)), "4 initiator MPA2-9.2-02 at 20"},
	{"nothing wanted", iwarptest.Request(0x50, 2, enhanced(0x3fff, 0x3fff)), iwarptest.Reply(0x50, 2, enhanced(0x3fff, 0x3fff)), "4 initiator MPA2-10-03 at 16"},
	{"not negotiated, and answered", iwarptest.Request(0x50, 2, enhanced(0x3fff, 8)), iwarptest.Reply(0x50, 2, enhanced(8, 8)), "5 responder MPA2-9.1-12 at 22"},
	{"ORD not negotiated, and answered", iwarptest.Request(0x50, 2, enhanced(8, 0x3fff)), iwarptest.Reply(0x50, 2, enhanced(8, 8)), "5 responder MPA2-9.1-10 at 20"},
	{"ORD above the peer's IRD", iwarptest.Request(0x50, 2, enhanced(4, 4)), iwarptest.Reply(0x50, 2, enhanced(4, 5)), "5 responder MPA2-9.1-03 at 22"},
}

func broken(all []analysis.Event) string {
	var s []string
	for _, v := range of[*analysis.Verdict](all) {
		s = append(s, fmt.Sprintf("%d %v %s at %d", v.Frame, v.From, v.Rule, v.Offset))
	}
	return strings.Join(s, "; ")
}

func TestVerdictsOnStartup(t *testing.T) {
	for _, tt := range startups {
		out := ownOut()
		k := newTalk(out)
		k.open()
		k.send(0, tt.req)
		if tt.rep != nil {
			k.send(1, tt.rep)
		}
		k.close()
		all, _, err := events(t, out.b, nil)
		if err != nil || broken(all) != tt.want {
			t.Errorf("%s: %v\n got %s\nwant %s", tt.name, err, broken(all), tt.want)
		}
	}
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
	want  string
	then  string // messages; "" is not checked
}{
	{"nothing wrong", c, func(d *deal) {
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
	}, "", ""},
	{"the Responder is first", c, func(d *deal) {
		d.say(1, iwarptest.Send(1, nil))
		d.hello()
	}, "6 responder MPA-7.1.2-14 at 0", "Send 0 #1; Send 2 #1"},
	{"PAD", c, func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, setFPDU(b, 23, 7))
	}, "6 initiator MPA-4.1-03 at 23", ""},
	{"CRC", c, func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, changed(b, 20, 'H'))
		d.say(0, iwarptest.Send(2, []byte("ho")))
	}, "6 initiator MPA-4.4-15 at 24", "Send 2 #1; Send 2 #2"},
	{"CRC of a wrong MSN", c, func(d *deal) {
		d.hello()
		b := d.f[0].Frame(iwarptest.Send(2, []byte("hi")))
		d.send(0, changed(b, 15, 77))
		d.say(0, iwarptest.Send(3, []byte("ho")))
		d.say(0, iwarptest.Send(5, []byte("ho")))
	}, "7 initiator MPA-4.4-15 at 52; 9 initiator DDP-4.3-08 at 96", "Send 2 #1; Send 2 #77; Send 2 #3; Send 2 #5"},
	{"CRC of a wrong length", c, func(d *deal) {
		d.hello()
		b := d.f[0].Frame(iwarptest.Send(2, []byte("hi")))
		d.send(0, changed(b, 1, 16))
		d.say(0, iwarptest.Send(3, []byte("ho")))
	}, "7 initiator MPA-4.4-15 at 48", "Send 2 #1; Send 2 #3"},
	{"length 0", c, func(d *deal) {
		d.say(0, nil)
		d.hello()
	}, "6 initiator MPA-3-06 at 0; 6 initiator DDP-4.4-01 at 2", "Send 2 #1"},
	{"too long a ULPDU", c, func(d *deal) {
		d.hello()
		b := d.f[0].Frame(iwarptest.Write(1, 0, make([]byte, 64800)))
		d.send(0, b[:40000])
		d.send(0, b[40000:])
	}, "7 initiator MPA-3-05 at 28", "Send 2 #1; RDMA Write 64800 #0"},
	{"a short segment", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Send(2, nil)[:17])
	}, "7 initiator DDP-4.4-01 at 30", ""},
	{"DV", c, func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 0, 0x42)) }, "7 initiator DDP-4.1-08 at 30", ""},
	{"Rsvd", c, func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 0, 0x45)) }, "7 initiator DDP-4.1-07 at 30", ""},
	{"RV", c, func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 1, 0x83)) }, "7 initiator RDMAP-4.1-06 at 31", ""},
	{"Rsv", c, func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 1, 0x53)) }, "7 initiator RDMAP-4.1-07 at 31", ""},
	{"opcode", c, func(d *deal) { d.hello(); d.say(0, changed(iwarptest.Send(2, nil), 1, 0x4c)) }, "7 initiator RDMAP-7.2-02 at 31", ""},
	{"T", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Tagged(3, true, 1, 2, nil)) }, "7 initiator RDMAP-4.1-04 at 30", ""},
	{"QN", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Untagged(3, true, 0, 7, 1, 0, nil)) }, "7 initiator RDMAP-4.1-08 at 36", ""},
	{"QN of an immediate", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Untagged(8, true, 0, 1, 1, 0, make([]byte, 8))) }, "7 initiator EXT-4.1-03 at 36", ""},
	{"Invalidate STag", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Untagged(3, true, 9, 0, 2, 0, nil)) }, "7 initiator RDMAP-4.1-03 at 32", ""},
	{"first MSN", c, func(d *deal) { d.say(0, iwarptest.Send(2, nil)); d.say(0, iwarptest.Send(3, nil)) }, "6 initiator DDP-4.3-07 at 12", "Send 0 #2; Send 0 #3"},
	{"MSN gap", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Send(3, nil)) }, "7 initiator DDP-4.3-08 at 40", ""},
	{"one MSN for all queues", c, func(d *deal) { d.hello(); d.say(0, iwarptest.ReadRequest(2, 1, 2, 3, 4, 5)) }, "7 initiator DDP-4.3-07 at 40", ""},
	{"MSN within a message", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Untagged(3, false, 0, 0, 2, 0, []byte("ab")))
		d.say(0, iwarptest.Untagged(3, true, 0, 0, 3, 0, []byte("cd")))
	}, "8 initiator DDP-4.3-10 at 68", "Send 2 #1; Send 2 #2 partial; Send 2 #3"},
	{"MO", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Untagged(3, false, 0, 0, 2, 0, []byte("ab")))
		d.say(0, iwarptest.Untagged(3, true, 0, 0, 2, 3, []byte("cd")))
	}, "8 initiator DDP-5.2-05 at 72", ""},
	{"first MO", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Untagged(3, true, 0, 0, 2, 3, nil)) }, "7 initiator DDP-4.3-11 at 44", ""},
	{"RsvdULP changes", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Untagged(3, false, 0, 0, 2, 0, []byte("ab")))
		d.say(0, iwarptest.Untagged(5, true, 0, 0, 2, 2, []byte("cd")))
	}, "8 initiator DDP-4.3-02 at 59", ""},
	{"STag changes", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Tagged(0, false, 5, 0, []byte("abcd")))
		d.say(0, iwarptest.Tagged(0, true, 6, 4, []byte("efgh")))
	}, "8 initiator DDP-4.2-05 at 56", ""},
	{"TO does not follow", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Tagged(0, false, 5, 0, []byte("abcd")))
		d.say(0, iwarptest.Tagged(0, true, 5, 5, []byte("efgh")))
	}, "8 initiator DDP-5.2-06 at 60", ""},
	{"messages are mixed", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Tagged(0, false, 5, 0, []byte("abcd")))
		d.say(0, iwarptest.Send(2, nil))
		d.say(0, iwarptest.Tagged(0, true, 5, 4, []byte("efgh")))
	}, "8 initiator DDP-5.3-01 at 54", "Send 2 #1; Send 0 #2; RDMA Write 8 #0"},
	{"a Read Request of 27 octets", c, func(d *deal) {
		d.hello()
		b := iwarptest.ReadRequest(1, 1, 2, 3, 4, 5)
		d.say(0, b[:len(b)-1])
	}, "7 initiator RDMAP-4.4-01 at 28", ""},
	{"an immediate of 9 octets", c, func(d *deal) { d.hello(); d.say(0, append(iwarptest.Immediate(2, [8]byte{}), 1)) }, "7 initiator EXT-6.3-06 at 28", ""},
	{"an unknown atomic", c, func(d *deal) { d.hello(); d.say(0, iwarptest.AtomicRequest(1, 1, 2, 3, 4, 5, 6, 7, 8)) }, "7 initiator EXT-5.2.1-04 at 51", ""},
	{"FetchAdd compares", c, func(d *deal) { d.hello(); d.say(0, iwarptest.AtomicRequest(1, 0, 2, 3, 4, 5, 6, 7, 8)) }, "7 initiator EXT-5.2.1-03 at 84", ""},
	{"a response to nothing", c, func(d *deal) { d.hello(); d.say(1, iwarptest.ReadResponse(1, 2, nil)) }, "7 responder RDMAP-5.2-01 at 3", ""},
	{"an Atomic Response to nothing", c, func(d *deal) { d.hello(); d.say(1, iwarptest.AtomicResponse(1, 2, 3)) }, "7 responder EXT-5.2.2-06 at 3", ""},
	{"another atomic's response", c, func(d *deal) {
		d.say(0, iwarptest.FetchAdd(1, 7, 8, 16, 1, 0))
		d.say(1, iwarptest.AtomicResponse(1, 8, 5))
	}, "7 responder EXT-5.2.1-02 at 20", ""},
	{"a response for another STag", c, func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 4, 4, 5))
		d.say(1, iwarptest.ReadResponse(9, 2, make([]byte, 4)))
	}, "7 responder RDMAP-4.4-02 at 4", ""},
	{"fields of a Read Request the wrong way round", c, func(d *deal) {
		b := binary.LittleEndian.AppendUint32(nil, 1)
		b = binary.LittleEndian.AppendUint64(b, 0x2000)
		b = binary.LittleEndian.AppendUint32(b, 4)
		b = binary.LittleEndian.AppendUint32(b, 5)
		b = binary.LittleEndian.AppendUint64(b, 6)
		d.say(0, iwarptest.Untagged(1, true, 0, 1, 1, 0, b))
		d.say(1, iwarptest.ReadResponse(1, 0x2000, make([]byte, 4)))
	}, "6 initiator RDMAP-4.4-01 at 20", ""},
	{"too short a response", c, func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 5, 4, 5))
		d.say(1, iwarptest.ReadResponse(1, 2, make([]byte, 4)))
	}, "7 responder RDMAP-5.2.1-09 at 0", ""},
	{"too long a response", c, func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 5, 4, 5))
		d.say(1, iwarptest.Tagged(2, false, 1, 2, make([]byte, 4)))
		d.say(1, iwarptest.Tagged(2, true, 1, 6, make([]byte, 4)))
	}, "8 responder RDMAP-5.2.1-09 at 24", ""},
	{"responses out of order", c, func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 4, 4, 5))
		d.say(0, iwarptest.ReadRequest(2, 3, 4, 4, 4, 5))
		d.say(1, iwarptest.ReadResponse(3, 4, make([]byte, 4)))
		d.say(1, iwarptest.ReadResponse(1, 2, make([]byte, 4)))
	}, "8 responder RDMAP-5.2.2-04 at 3", ""},
	{"a Read answered before an atomic", c, func(d *deal) {
		d.say(0, iwarptest.FetchAdd(1, 7, 8, 16, 1, 0))
		d.say(0, iwarptest.ReadRequest(2, 3, 4, 4, 4, 5))
		d.say(1, iwarptest.ReadResponse(3, 4, make([]byte, 4)))
	}, "8 responder RDMAP-5.2.2-04 at 3", ""},
	{"after a Terminate", c, func(d *deal) {
		d.hello()
		d.say(0, iwarptest.Terminate(0x0206, nil))
		d.say(0, iwarptest.Send(2, nil))
	}, "8 initiator RDMAP-5.4-07 at 56", ""},
	{"a Terminate as Linux siw sends it", c, func(d *deal) {
		d.say(0, iwarptest.ReadRequest(1, 1, 2, 4, 4, 5))
		b := iwarptest.ReadResponse(1, 2, make([]byte, 4))
		d.say(1, b)
		x := iwarptest.Terminate(0x1101, b)
		x[20], x[23], x[24+1-2] = 0x03, 0, 0
		binary.BigEndian.PutUint16(x[20:], 0x0300)
		binary.BigEndian.PutUint16(x[22:], 4)
		d.say(0, x)
	}, "8 initiator RDMAP-4.8-04 at 74; 8 initiator RDMAP-4.8-01 at 76; 8 initiator RDMAP-4.8-05 at 76", ""},
	{"a Terminate with an unknown error", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Terminate(0x1200, nil)) }, "7 initiator RDMAP-4.8-02 at 48", ""},
	{"a Terminate without header", c, func(d *deal) { d.hello(); d.say(0, iwarptest.Untagged(7, true, 0, 2, 1, 0, []byte{1, 1})) }, "7 initiator RDMAP-4.8-01 at 28", ""},
	{"Marker: reserved octets", mc, func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, setFPDU(b, 1, 7))
	}, "6 initiator MPA-4.2-02 at 0", ""},
	{"Marker: low bits", mc, func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, make([]byte, 600)))
		d.send(0, setFPDU(b, 515, b[515]|1))
	}, "6 initiator MPA-4.2-04 at 512", "Send 600 #1"},
	{"Marker: pointer", mc, func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, make([]byte, 600)))
		d.send(0, setFPDU(b, 515, 0x80))
	}, "6 initiator MPA-4.3-05 at 512", "Send 600 #1"},
	{"Marker: little-endian", mc, func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, make([]byte, 600)))
		b[514], b[515] = b[515], b[514]
		d.send(0, iwarptest.FixCRC(b))
	}, "6 initiator MPA-4.2-01 at 512", "Send 600 #1"},
	{"Marker: the first is not 0", mc, func(d *deal) {
		b := d.f[0].Frame(iwarptest.Send(1, []byte("hi")))
		d.send(0, setFPDU(b, 3, 4))
	}, "6 initiator MPA-4.3-08 at 0", "Send 2 #1"},
	{"Markers that nobody asked for", c, func(d *deal) { d.f[0].Markers = true; d.hello(); d.say(0, iwarptest.Send(2, make([]byte, 600))) }, "6 initiator MPA-7.1.1-07 at 0", "Send 2 #1; Send 600 #2"},
	{"no Markers", mc, func(d *deal) { d.f[0].Markers = false; d.hello(); d.say(0, iwarptest.Send(2, make([]byte, 600))) }, "6 initiator MPA-7.1.1-06 at 0", "Send 2 #1; Send 600 #2"},
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
			if err != nil || broken(all) != tt.want {
				t.Errorf("%v\n got %s\nwant %s", err, broken(all), tt.want)
			}
			if tt.then != "" && ops(all) != tt.then {
				t.Errorf("messages\n got %s\nwant %s", ops(all), tt.then)
			}
			for _, v := range of[*analysis.Verdict](all) {
				if v.Level == "" || v.RFC == 0 || v.Section == "" || v.Summary == "" || v.Expected == "" || v.Seen == "" || !strings.HasPrefix(v.URL(), "https://www.rfc-editor.org/rfc/rfc") {
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
		want    string
		rtr     bool
	}{
		{"a zero-length Write", iwarptest.Write(1, 0, nil), "", true},
		{"a zero-length Read, which the Responder does not support", iwarptest.ReadRequest(1, 1, 0, 0, 1, 0), "6 initiator MPA2-9.2-08 at 3", false},
		{"a Send", iwarptest.Send(1, []byte("hi")), "6 initiator MPA2-5-02 at 3", false},
	} {
		d := newDeal(c, c)
		d.send(0, iwarptest.Request(0x50, 2, enhanced(0x8008, 0xc008)))
		d.send(1, iwarptest.Reply(0x50, 2, enhanced(0x8008, 0x8008)))
		d.say(0, tt.segment)
		all, _, _ := events(t, d.out.b, nil)
		if got := broken(all); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
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
	if got, want := broken(all), "8 initiator RDMAP-6.1-04 at 106"; got != want {
		t.Errorf("got %s, want %s", got, want)
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
	if got, want := broken(all), "4 initiator MPA-7.1.2-09 at 0"; got != want || ops(all) != "Send 2 #1" {
		t.Errorf("got %s, want %s; %s", got, want, ops(all))
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
		t.Errorf("%v\n%s", got, broken(all))
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
