package iwarp_test

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
)

// R24: a program that changes a buffer between post and completion. Inline the
// octets are those at the time of the post; otherwise they are anyone's, but never
// such that the CRC over them is wrong: the peer reads strictly.
func TestBufferChangedAfterPost(t *testing.T) {
	for _, inline := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			v, p := serverOfPeer(t, nil) // held until the peer's first message
			mem := []byte("as posted")
			check(t, "PostSend", v.QP().PostSend(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{mem}, Inline: inline}))
			copy(mem, "changed!!")
			p.Send(iwarptest.Send(1, nil))
			got := p.Frame("a Send with a good CRC")[18:]
			if inline && string(got) != "as posted" || !inline && string(got) != "changed!!" {
				t.Errorf("inline %t: %q", inline, got)
			}
		})
	}
}

// R27: no FPDU is larger than what the path, or the program, allows, and all but
// the last are as large as that.
// Shows: MPA-3-03, MPA-4.5-04
func TestFPDUsOfALargeWrite(t *testing.T) {
	for _, limit := range []int{0, 536, 1460, 8960} {
		v, p := clientOfPeer(t, &iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: limit}})
		const size = 1 << 20
		check(t, "PostSend", v.QP().PostSend(iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{pattern(size)}}))
		if limit == 0 {
			limit = 1460 // no TCP below that could say
		}
		var got []byte
		for len(got) < size {
			seg := p.Frame("a segment of the Write")
			got = append(got, seg[14:]...)
			n := 2 + len(seg) + 4 // a multiple of four already
			if n > limit || len(got) < size && n+4 <= limit {
				t.Fatalf("limit %d: an FPDU of %d octets", limit, n)
			}
		}
		if !bytes.Equal(got, pattern(size)) {
			t.Error("other octets")
		}
		v.Abort()
	}
}

// Where segments are as large as on Linux's loopback, FPDUs are of 32 KiB, unless
// the program asks for larger ones, or for such that fill segments.
//
// Shows: DDP-5.2-01
func TestFPDUsOnLoopback(t *testing.T) {
	for _, tt := range []struct {
		cfg  iwarp.Config
		want int
	}{
		{cfg: iwarp.Config{}, want: 32 << 10},
		{cfg: iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: 64776}}, want: 64776},
		{cfg: iwarp.Config{MPA: iwarp.MPAConfig{Align: mpa.AlignSegments}}, want: 64776},
	} {
		client, server := tcpPair(t, &tt.cfg, nil)
		mr := must(server.NewMR(make([]byte, 1<<20), iwarp.RemoteWrite))(t)
		for range 4 { // TCP's segments grow with the first octets
			check(t, "Write", client.RDMAWrite(testContext(t), pattern(1<<20), mr.Remote()))
		}
		s := client.Stats()
		if s.MPA.EMSS < 64000 {
			t.Skipf("segments are of %d octets here", s.MPA.EMSS)
		}
		if s.MULPDU > tt.want-6 || s.MULPDU < tt.want-8 {
			t.Errorf("FPDUMax %d, Align %d: MULPDU is %d", tt.cfg.MPA.FPDUMax, tt.cfg.MPA.Align, s.MULPDU)
		}
		least := 3 * uint64(1<<20/tt.want) // three Writes of four, at least, are in the larger FPDUs
		if most := 2 * 4 * uint64(1<<20/tt.want+1); s.MPA.FPDUsSent < least || s.MPA.FPDUsSent > most {
			t.Errorf("FPDUMax %d, Align %d: %d FPDUs, want %d to %d", tt.cfg.MPA.FPDUMax, tt.cfg.MPA.Align,
				s.MPA.FPDUsSent, least, most)
		}
	}
}

// R51: Writes of two connections to the same octets may mix, and that is all:
// each octet is of one of them. Two Writes of one connection do not: the later
// one stands.
func TestOverlappingWrites(t *testing.T) {
	if raceEnabled {
		t.Skip("two peers that write to the same octets at once are a data race by design")
	}
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	g := newGuarded(10_000)
	mr := must(pd.NewMR(g.mem, iwarp.RemoteWrite|iwarp.RemoteRead, nil))(t)
	defer mr.Close()
	var wg sync.WaitGroup
	for i := range byte(2) {
		a, _ := tcpPair(t, nil, &iwarp.Config{PD: pd})
		wg.Go(func() {
			for range 50 {
				for _, c := range []byte{i + 1, i + 11} {
					if err := a.RDMAWrite(testContext(t), bytes.Repeat([]byte{c}, len(g.mem)),
						mr.Remote()); err != nil {
						t.Error(err)
					}
				}
			}
			if err := a.RDMARead(testContext(t), make([]byte, 1), mr.Remote()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	g.check(t)
	if i := slices.IndexFunc(g.mem, func(c byte) bool { return c != 11 && c != 12 }); i >= 0 {
		t.Errorf("octet %d is %d: of no last Write", i, g.mem[i])
	}
}
