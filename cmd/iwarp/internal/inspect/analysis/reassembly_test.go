package analysis_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

func ownOut() *pcapOut { return newPcapOut(binary.LittleEndian, true, 1) }

// sends returns n FPDUs with Sends of size octets.
func sends(f *iwarptest.Framer, msn uint32, n, size int) (out [][]byte) {
	for i := range n {
		p := bytes.Repeat([]byte{byte(i) + 1}, size)
		out = append(out, f.Frame(iwarptest.Send(msn+uint32(i), p)))
	}
	return out
}

// ops puts the messages of all into words, without frames.
func ops(all []analysis.Event) string {
	var s []string
	for _, m := range of[*analysis.Message](all) {
		x := fmt.Sprintf("%s %d #%d", m.Op, m.Length, m.MSN)
		if m.Partial {
			x += " partial"
		}
		if m.Cut {
			x += " cut"
		}
		s = append(s, x)
	}
	return strings.Join(s, "; ")
}

func anomalies(all []analysis.Event) string {
	var s []string
	for _, a := range of[*analysis.Anomaly](all) {
		s = append(s, fmt.Sprintf("%s %d+%d", a.What, a.Offset, a.Length))
	}
	return strings.Join(s, "; ")
}

func noVerdicts(t *testing.T, all []analysis.Event) {
	t.Helper()
	for _, v := range of[*analysis.Verdict](all) {
		t.Errorf("verdict %s in frame %d at %d: expected %s, seen %s", v.Rule, v.Frame, v.Offset, v.Expected, v.Seen)
	}
}

// TestEverySegmentation cuts a connection's octets everywhere, with Markers and
// without.
func TestEverySegmentation(t *testing.T) {
	for _, markers := range []bool{false, true} {
		flag := byte(iwarptest.FlagC)
		if markers {
			flag |= iwarptest.FlagM
		}
		a := &iwarptest.Framer{Markers: markers}
		stream := bytes.Join(sends(a, 1, 4, 200), nil)
		want := "Send 200 #1; Send 200 #2; Send 200 #3; Send 200 #4"
		req, rep := iwarptest.Request(flag, 1, []byte("hi")), iwarptest.Reply(flag, 1, nil)
		check := func(name string, play func(k *talk)) {
			t.Helper()
			out := ownOut()
			k := newTalk(out)
			k.open()
			play(k)
			k.close()
			all, _, err := events(t, out.b, nil)
			if err != nil || ops(all) != want || len(of[*analysis.StartupFrame](all)) != 2 {
				t.Fatalf("%s, markers %t: %v\n got %s\nwant %s", name, markers, err, ops(all), want)
			}
			noVerdicts(t, all)
		}
		for cut := range stream {
			check(fmt.Sprintf("cut at %d", cut), func(k *talk) {
				c := min(cut, len(req))
				k.send(0, req[:c])
				k.send(0, req[c:])
				c = min(cut, len(rep))
				k.send(1, rep[:c])
				k.send(1, rep[c:])
				k.send(0, stream[:cut])
				k.send(0, stream[cut:])
			})
		}
		for _, size := range []int{1, 2, 3, 4, 5, 7, 100, 511, 512, 513} {
			check(fmt.Sprintf("pieces of %d", size), func(k *talk) {
				for _, x := range []struct {
					dir int
					b   []byte
				}{{dir: 0, b: req}, {dir: 1, b: rep}, {dir: 0, b: stream}} {
					for b := x.b; len(b) > 0; b = b[min(size, len(b)):] {
						k.send(x.dir, b[:min(size, len(b))])
					}
				}
			})
		}
	}
}

// TestShuffled sends segments in any order, some of them again and with other
// boundaries, with sequence numbers that wrap.
func TestShuffled(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		out := ownOut()
		k := newTalk(out)
		k.seq = [2]uint32{0xffffff00, 0xfffffff0}
		k.start(iwarptest.FlagC|iwarptest.FlagM, iwarptest.FlagC|iwarptest.FlagM)
		f := &iwarptest.Framer{Markers: true}
		stream := bytes.Join(sends(f, 1, 20, 333), nil)
		base := k.seq[0]
		type piece struct{ from, to int }
		var pieces []piece
		for at := 0; at < len(stream); {
			n := min(1+rnd.IntN(700), len(stream)-at)
			pieces = append(pieces, piece{at, at + n})
			if rnd.IntN(4) == 0 {
				from := max(at-rnd.IntN(300), 0)
				pieces = append(pieces, piece{from, min(from+1+rnd.IntN(900), len(stream))})
			}
			at += n
		}
		rnd.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for _, p := range pieces {
			k.raw(0, base+uint32(p.from), tcpACK, stream[p.from:p.to])
		}
		k.seq[0] += uint32(len(stream))
		k.close()
		all, _, err := events(t, out.b, nil)
		if err != nil || len(of[*analysis.Message](all)) != 20 {
			t.Fatalf("seed %d: %v, %s", seed, err, ops(all))
		}
		noVerdicts(t, all)
		c := of[*analysis.Closed](all)[0].Conn
		if s := c.From[0]; s.Octets != uint64(len(stream))+20 || s.Overlaps != 0 || s.Holes != 0 || s.CRCGood != 20 {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

func TestRetransmissionsAndOverlaps(t *testing.T) {
	out := ownOut()
	k := newTalk(out)
	k.start(iwarptest.FlagC, iwarptest.FlagC)
	f := new(iwarptest.Framer)
	one, two, three := f.Frame(iwarptest.Send(1, []byte("first"))), f.Frame(iwarptest.Send(2,
		[]byte("second"))), f.Frame(iwarptest.Send(3, []byte("third")))
	k.send(0, one)
	k.raw(0, k.seq[0]-uint32(len(one)), tcpACK, one) // again
	changed := bytes.Clone(one)
	changed[22] ^= 0xff
	// again, and not the same
	k.raw(0, k.seq[0]-uint32(len(one)), tcpACK, changed)
	k.raw(0, k.seq[0]-1, tcpACK, []byte{0x99})         // a keep-alive
	k.raw(0, k.seq[0]-1, tcpACK, nil)                  // another
	k.raw(0, k.seq[0]+uint32(len(two)), tcpACK, three) // early
	// its end disagrees with three
	k.raw(0, k.seq[0]+4, tcpACK, append(bytes.Clone(two[4:]), bytes.Repeat([]byte{0xee}, 8)...))
	k.send(0, two)
	k.skip(0, three)
	k.close()
	all, _, err := events(t, out.b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ops(all), "Send 5 #1; Send 6 #2; Send 5 #3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := "retransmission 20+32; retransmission 20+32; overlap 42+10; keep-alive 51+1; keep-alive 51+0; out of " +
		"order 84+32; out of order 56+36; overlap 84+8"
	if got := anomalies(all); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	noVerdicts(t, all)
	if s := of[*analysis.Closed](all)[0].Conn.From[0]; s.KeepAlives != 2 || s.Overlaps != 2 || s.OutOfOrder != 2 ||
		s.RetransmittedOctets != 64 {
		t.Errorf("%+v", s)
	}
}

// TestHoles leaves segments out: the reader goes on at the next FPDU.
func TestHoles(t *testing.T) {
	for _, tt := range []struct {
		name         string
		flags        byte
		markers, crc bool
	}{
		{name: "CRC", flags: iwarptest.FlagC, crc: true},
		{name: "Markers and CRC", flags: iwarptest.FlagC | iwarptest.FlagM, markers: true, crc: true},
		{name: "Markers", flags: iwarptest.FlagM, markers: true},
		{name: "neither", flags: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for missing := range 6 {
				out := ownOut()
				k := newTalk(out)
				k.start(tt.flags, tt.flags)
				f := &iwarptest.Framer{Markers: tt.markers, NoCRC: !tt.crc}
				stream := bytes.Join(sends(f, 1, 40, 100), nil)
				size := 700 // no FPDU begins a segment, but for the first
				for i := 0; len(stream) > 0; i++ {
					n := min(size, len(stream))
					if i == missing {
						k.skip(0, stream[:n])
					} else {
						k.send(0, stream[:n])
					}
					k.raw(1, k.seq[1], tcpACK, nil)
					stream = stream[n:]
				}
				k.close()
				all, _, err := events(t, out.b, nil)
				if err != nil {
					t.Fatal(err)
				}
				noVerdicts(t, all)
				got := of[*analysis.Message](all)
				if len(got) < 31 || got[len(got)-1].MSN != 40 {
					t.Errorf("segment %d: %d messages: %s\n%s", missing, len(got), ops(all), anomalies(all))
				}
				if s := of[*analysis.Closed](all)[0].Conn.From[0]; s.Holes != 1 || s.HoleOctets != uint64(size) ||
					s.CRCBad != 0 {
					t.Errorf("segment %d: %+v", missing, s)
				}
			}
		})
	}
}

// TestSnapLength cuts frames: the headers are enough to follow the FPDUs.
func TestSnapLength(t *testing.T) {
	for _, markers := range []bool{false, true} {
		out := ownOut()
		k := newTalk(out)
		flags := byte(iwarptest.FlagC)
		if markers {
			flags |= iwarptest.FlagM
		}
		k.start(flags, flags)
		k.snap = 110
		f := &iwarptest.Framer{Markers: markers}
		for _, b := range sends(f, 1, 10, 1000) {
			k.send(0, b)
		}
		// One over two segments: the second one holds nothing that is needed.
		b := f.Frame(iwarptest.Send(11, make([]byte, 2000)))
		k.send(0, b[:1448])
		k.send(0, b[1448:])
		k.send(0, f.Frame(iwarptest.Send(12, []byte("x"))))
		k.close()
		all, r, err := events(t, out.b, nil)
		if err != nil {
			t.Fatal(err)
		}
		noVerdicts(t, all)
		got := of[*analysis.Message](all)
		if len(got) != 12 || !got[3].Cut || got[10].Length != 2000 || got[11].Cut {
			t.Errorf("markers %t: %s\n%s", markers, ops(all), anomalies(all))
		}
		if r.Stats().Cut != 12 {
			t.Errorf("%+v", r.Stats())
		}
	}
}

func TestReset(t *testing.T) {
	out := ownOut()
	k := newTalk(out)
	k.start(iwarptest.FlagC, iwarptest.FlagC)
	f := new(iwarptest.Framer)
	b := f.Frame(iwarptest.Send(1, []byte("hello")))
	k.send(0, b, b[:10])
	k.raw(1, k.seq[1], tcpRST|tcpACK, nil)
	k.send(0, b[10:]) // what still comes belongs to it
	all, _, _ := events(t, out.b, nil)
	want := "4 initiator Request; 5 responder Reply; 6 initiator Send 5; 7 responder reset 20+0; 7 initiator " +
		"unfinished 52+10; closed reset"
	if got := brief(all); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestPortsUsedAgain(t *testing.T) {
	out := ownOut()
	k := newTalk(out)
	greet(k)
	k.seq = [2]uint32{77, 99}
	greet(k)
	k.seq = [2]uint32{777, 999}
	k.start(0, 0) // no end
	k.seq = [2]uint32{7, 9}
	greet(k)
	all, r, _ := events(t, out.b, nil)
	var how []string
	for _, c := range of[*analysis.Closed](all) {
		how = append(how, c.How)
	}
	if got := strings.Join(how, ", "); got != "fin, fin, reused, fin" || r.Stats().Conns != 4 {
		t.Errorf("%s; %+v", got, r.Stats())
	}
	noVerdicts(t, all)
}

func TestFragmentsAreReported(t *testing.T) {
	out := ownOut()
	k := newTalk(out)
	k.start(iwarptest.FlagC, iwarptest.FlagC)
	f := new(iwarptest.Framer)
	b := sends(f, 1, 30, 50)
	k.send(0, b[0])
	first := k.packet(0, k.seq[0], tcpACK, b[1])
	first[6] = 0x20 // more fragments
	out.add(onEthernet(first), 0)
	rest := bytes.Clone(first)
	rest[6], rest[7] = 0, 9
	out.add(onEthernet(rest), 0)
	k.skip(0, b[1])
	for _, x := range b[2:] {
		k.send(0, x)
		k.raw(1, k.seq[1], tcpACK, nil)
	}
	k.close()
	all, r, _ := events(t, out.b, nil)
	if r.Stats().Fragments != 2 || !strings.Contains(anomalies(all), "fragment") ||
		len(of[*analysis.Message](all)) != 29 {
		t.Errorf("%+v\n%s\n%s", r.Stats(), anomalies(all), ops(all))
	}
	noVerdicts(t, all)
}

// TestManyConnections shows that the number that is followed is bounded.
func TestManyConnections(t *testing.T) {
	out := ownOut()
	for i := range 50 {
		k := newTalk(out)
		k.port[0] = uint16(1000 + i)
		k.start(iwarptest.FlagC, iwarptest.FlagC)
	}
	all, r, _ := events(t, out.b, &analysis.ReaderOptions{MaxConns: 8})
	evicted := 0
	for i, c := range of[*analysis.Closed](all) {
		if c.How == "evicted" {
			evicted++
		}
		if c.Conn.Number != i+1 {
			t.Errorf("connection %d is closed as number %d", c.Conn.Number, i+1)
		}
	}
	if evicted != 42 || r.Stats().IWARP != 50 {
		t.Errorf("%d evicted, %+v", evicted, r.Stats())
	}
}
