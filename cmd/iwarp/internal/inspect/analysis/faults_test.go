package analysis_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// busy is a capture, in little-endian pcap, of a connection that breaks no rule: Sends
// of one and several segments, Writes, Reads and atomics one after the other and
// several at a time, an Immediate and a Terminate. With join two FPDUs share a
// segment of TCP.
func busy(req, rep byte, peerToPeer, join bool) []byte {
	d := newDeal(req|iwarptest.FlagS, rep|iwarptest.FlagS)
	d.out = newPcapOut(binary.LittleEndian, true, 1)
	d.seq = [2]uint32{1000, 5000}
	d.open()
	ird, ord := uint16(4), uint16(4)
	if peerToPeer {
		ird, ord = ird|0x8000, ord|0x8000
	}
	d.send(0, iwarptest.Request(req|iwarptest.FlagS, 2, enhanced(ird, ord)))
	d.send(1, iwarptest.Reply(rep|iwarptest.FlagS, 2, enhanced(ird, ord)))
	if peerToPeer {
		d.say(0, iwarptest.Tagged(0, true, 0, 0, nil))
	}
	held := [2][]byte{}
	say := func(dir int, segment []byte) {
		b := d.f[dir].Frame(segment)
		if join && held[dir] == nil {
			held[dir] = b
			return
		}
		d.send(dir, held[dir], b)
		held[dir] = nil
	}
	flush := func() {
		for dir, b := range held {
			if b != nil {
				d.send(dir, b)
			}
			held[dir] = nil
		}
	}
	text := bytes.Repeat([]byte("some text of the ULP "), 40)
	msn, requests, atomics := [2]uint32{}, uint32(0), uint32(0)
	send := func(dir, segments int) {
		msn[dir]++
		for k := range segments {
			say(dir,
				iwarptest.Untagged(iwarptest.UntaggedHeader{
					Opcode: opSend, Last: k == segments-1, MSN: msn[dir], MO: uint32(k * 100),
				},
					text[:100]))
		}
	}
	be := binary.BigEndian
	for round := range uint32(4) {
		send(0, 1)
		send(1, 1)
		send(0, 3)
		flush()
		for k := range 3 {
			say(0, iwarptest.Tagged(opWrite, k == 2, 0x100, uint64(k*500), text[:500]))
		}
		flush()
		for k := range uint32(2) { // two Reads and an atomic at once
			requests++
			q := be.AppendUint64(be.AppendUint32(nil, 0x10+k), 0)
			q = be.AppendUint64(be.AppendUint32(be.AppendUint32(q, 600), 0x20), 0x1000)
			say(0,
				iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: opReadRequest, Last: true, QN: 1, MSN: requests},
					q))
		}
		requests++
		a := be.AppendUint64(be.AppendUint32(be.AppendUint32(be.AppendUint32(nil, 0), 77+round), 0x20), 0x2000)
		a = be.AppendUint64(be.AppendUint64(be.AppendUint64(be.AppendUint64(a, 1), 0), 0), 1<<64-1)
		say(0,
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: opAtomicRequest, Last: true, QN: 1, MSN: requests}, a))
		flush()
		for k := range uint32(2) {
			say(1, iwarptest.Tagged(opReadResponse, false, 0x10+k, 0, text[:400]))
			say(1, iwarptest.Tagged(opReadResponse, true, 0x10+k, 400, text[:200]))
		}
		atomics++
		say(1,
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: opAtomicResponse, Last: true, QN: 3, MSN: atomics},
				be.AppendUint64(be.AppendUint32(nil, 77+round), 5)))
		flush()
		send(1, 2)
		flush()
		d.raw(0, d.seq[0], tcpACK, nil)
	}
	msn[0]++
	echo := iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: opSend, Last: true, MSN: msn[0]}, text[:40])
	say(0, echo)
	flush()
	say(1,
		iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: opTerminate, Last: true, QN: 2, MSN: 1},
			append([]byte{0x12, 0x02, 0xc0, 0, 0, byte(len(echo))}, echo[:18]...)))
	flush()
	d.close()
	return d.out.b
}

// records takes a pcap file in little-endian order apart.
func records(b []byte) (head []byte, out [][]byte) {
	head = b[:24:24]
	for b = b[24:]; len(b) >= 16; {
		n := 16 + int(binary.LittleEndian.Uint32(b[8:]))
		out = append(out, b[:n:n])
		b = b[n:]
	}
	return head, out
}

// cutRecord gives a record as a snap length would have left it.
func cutRecord(b []byte, snap int) []byte {
	if len(b)-16 <= snap {
		return b
	}
	b = bytes.Clone(b[:16+snap])
	binary.LittleEndian.PutUint32(b[8:], uint32(snap))
	return b
}

var frameNumber = regexp.MustCompile(`frame \d+`)

func blamed(all []analysis.Event) map[string]bool {
	out := map[string]bool{}
	for _, v := range of[*analysis.Verdict](all) {
		out[frameNumber.ReplaceAllString(fmt.Sprintf("%s: expected %s, seen %s", v.Rule, v.Expected, v.Seen),
			"a frame")] = true
	}
	return out
}

// faults calls try with captures that lack frames, or have some twice, in another
// order, or not all of their octets.
func faults(recs [][]byte, seed uint64, try func(what string, recs [][]byte)) {
	splice := func(parts ...[][]byte) (out [][]byte) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for i := range recs {
		name := func(s string, n int) string { return fmt.Sprintf("%s %d at frame %d", s, n, i+1) }
		try(name("begins", 0), recs[i:])
		try(name("ends", 0), recs[:i])
		try(name("twice", 0), splice(recs[:i+1], recs[i:]))
		for _, n := range []int{1, 2, 3, 5, 20} {
			if i+n >= len(recs) {
				break
			}
			try(name("lacks", n), splice(recs[:i], recs[i+n:]))
			try(name("late by", n), splice(recs[:i], recs[i+1:i+n+1], recs[i:i+1], recs[i+n+1:]))
		}
		for _, snap := range []int{54, 60, 70, 96, 128} {
			try(name("cut to", snap), splice(recs[:i], [][]byte{cutRecord(recs[i], snap)}, recs[i+1:]))
		}
	}
	for _, snap := range []int{54, 60, 70, 80, 90, 100, 128, 200} {
		var out [][]byte
		for _, b := range recs {
			out = append(out, cutRecord(b, snap))
		}
		try(fmt.Sprintf("all cut to %d", snap), out)
	}
	rnd := rand.New(rand.NewPCG(seed, 6))
	many := 40
	if testing.Short() {
		many = 5
	}
	for k := range many {
		var out [][]byte
		for _, b := range recs {
			switch rnd.IntN(20) {
			case 0: // lost
			case 1:
				out = append(out, b, b)
			case 2:
				out = append(out, cutRecord(b, 40+rnd.IntN(200)))
			default:
				out = append(out, b)
			}
		}
		for range len(out) / 10 {
			i := rnd.IntN(len(out))
			j := min(i+rnd.IntN(4), len(out)-1)
			out[i], out[j] = out[j], out[i]
		}
		try(fmt.Sprintf("many faults, %d", k), out)
	}
}

// noNewBlame shows that faults of a capture are not laid at the door of the ends.
func noNewBlame(t *testing.T, file []byte, seed uint64) {
	t.Helper()
	head, recs := records(file)
	all, _, err := events(t, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	known := blamed(all)
	failed := 0
	faults(recs, seed, func(what string, recs [][]byte) {
		all, _, err := events(t, append(bytes.Clone(head), bytes.Join(recs, nil)...), nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for v := range blamed(all) {
			if !known[v] && failed < 20 {
				failed++
				t.Errorf("%s: %s", what, v)
			}
		}
	})
}

// TestFaultsOfTheCapture shows that what a capture lacks, has twice or in another
// order, or cuts, makes no verdict.
func TestFaultsOfTheCapture(t *testing.T) {
	for _, c := range []struct {
		name             string
		req, rep         byte
		peerToPeer, join bool
	}{
		{name: "CRC", req: 0x40, rep: 0x40},
		{name: "peer-to-peer", req: 0x40, rep: 0x40, peerToPeer: true},
		{name: "no CRC", req: 0, rep: 0},
		{name: "no CRC, FPDUs joined", req: 0, rep: 0, join: true},
		{name: "Markers", req: 0xc0, rep: 0xc0},
		{name: "Markers from the Initiator, FPDUs joined", req: 0x40, rep: 0xc0, peerToPeer: true, join: true},
		{name: "Markers, no CRC", req: 0x80, rep: 0x80},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := busy(c.req, c.rep, c.peerToPeer, c.join)
			all, _, err := events(t, file, nil)
			if v := blamed(all); err != nil || len(v) > 0 {
				t.Fatal(v, err)
			}
			if n := len(of[*analysis.Message](all)); n < 46 {
				t.Fatalf("%d messages", n)
			}
			noNewBlame(t, file, uint64(len(c.name)))
		})
	}
}

// TestFaultsOfRealCaptures shows the same of captures of siw.
func TestFaultsOfRealCaptures(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(realCaptures(t), "siw", "*.pcap"))
	for i, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		head, recs := records(b)
		if len(recs) > 100 {
			recs = recs[:100]
		}
		t.Run(filepath.Base(f), func(t *testing.T) {
			noNewBlame(t, append(bytes.Clone(head), bytes.Join(recs, nil)...), uint64(i))
		})
	}
}

// TestEndsOfTheCapture shows what is told of octets that are known to be missing
// where the capture ends, of a FIN within an FPDU, and of a Terminate of which the
// snap length left the control word.
func TestEndsOfTheCapture(t *testing.T) {
	started := func() *deal {
		d := newDeal(0x40, 0x40)
		d.send(0, iwarptest.Request(0x40, 1, nil))
		d.send(1, iwarptest.Reply(0x40, 1, nil))
		d.hello()
		return d
	}
	for name, c := range map[string]struct {
		play func(d *deal)
		want string // an anomaly
	}{
		"acknowledged, and not here": {play: func(d *deal) {
			d.skip(0, make([]byte, 100))
			d.raw(1, d.seq[1], tcpACK, nil)
		}, want: "hole 100"},
		"a FIN that is not here": {play: func(d *deal) {
			d.skip(0, make([]byte, 1))
			d.raw(1, d.seq[1], tcpACK, nil)
		}, want: ""},
		"FIN within an FPDU": {play: func(d *deal) {
			d.send(0, d.f[0].Frame(iwarptest.Send(2, []byte("half of it")))[:20])
			d.close()
		}, want: "unfinished 20 its sender closed this direction by FIN within an FPDU"},
		"the end within an FPDU": {play: func(d *deal) {
			d.send(0, d.f[0].Frame(iwarptest.Send(2, []byte("half of it")))[:20])
		}, want: "unfinished 20 the capture of this direction ends within an FPDU"},
		"a Terminate that is cut": {play: func(d *deal) {
			d.snap = 14 + 20 + 20 + 2 + 18 + 6
			d.say(1, iwarptest.Terminate(0x1203, iwarptest.Send(9, nil)))
		}, want: "cut 22"},
	} {
		t.Run(name, func(t *testing.T) {
			d := started()
			c.play(d)
			all, _, err := events(t, d.out.b, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, a := range of[*analysis.Anomaly](all) {
				got += fmt.Sprintf("%s %d %s", a.What, a.Length, a.Detail)
			}
			if strings.TrimSpace(got) != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if v := blamed(all); len(v) > 0 {
				t.Error(v)
			}
			for _, m := range of[*analysis.Message](all) {
				if m.Op == "Terminate" && (m.Terminate == nil || m.Terminate.Layer != 1 || m.Terminate.Type != 2 ||
					m.Terminate.Code != 3) {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

// TestMonotonousPayload shows that FPDUs are found again in time where each four
// octets look like the start of one.
func TestMonotonousPayload(t *testing.T) {
	d := newDeal(0xc0, 0xc0)
	d.send(0, iwarptest.Request(0xc0, 1, nil))
	d.send(1, iwarptest.Reply(0xc0, 1, nil))
	d.hello()
	text := bytes.Repeat([]byte("A"), 60000)
	const n = 60
	for k := range uint32(n) {
		b := d.f[0].Frame(iwarptest.Send(k+2, text))
		if k%2 == 0 {
			d.skip(0, b[:1000])
			b = b[1000:]
		}
		for len(b) > 0 {
			m := min(len(b), 30000)
			d.send(0, b[:m])
			b = b[m:]
		}
		d.raw(1, d.seq[1], tcpACK, nil)
	}
	all, _, err := events(t, d.out.b, nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, m := range of[*analysis.Message](all) {
		if !m.Partial {
			whole++
		}
	}
	if whole != 1+n/2 {
		t.Errorf("%d whole messages, want %d", whole, 1+n/2)
	}
	if v := blamed(all); len(v) > 0 {
		t.Error(v)
	}
}
