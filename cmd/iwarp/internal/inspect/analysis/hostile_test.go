package analysis_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// octets makes a file as it is read. more appends to out.b, and is called until it
// returns false.
type octets struct {
	out  *pcapOut
	more func() bool
	end  bool
}

func (o *octets) Read(b []byte) (int, error) {
	for len(o.out.b) == 0 {
		if o.end {
			return 0, io.EOF
		}
		o.end = !o.more()
	}
	n := copy(b, o.out.b)
	o.out.b = append(o.out.b[:0], o.out.b[n:]...)
	return n, nil
}

// peak reads all of r and returns the most octets of live heap, and what became of the
// connections.
func peak(t *testing.T, r io.Reader, o *analysis.ReaderOptions) (heap uint64, how map[string]int) {
	t.Helper()
	rd, err := analysis.Open(r, o)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	how = map[string]int{}
	for n := 0; ; n++ {
		e, err := rd.Next()
		if errors.Is(err, io.EOF) {
			return heap, how
		}
		if err != nil {
			t.Fatal(err)
		}
		c, closed := e.(*analysis.Closed)
		if closed {
			how[c.How]++
		}
		if closed || n%256 == 0 {
			runtime.GC() // what is held counts, not what the collector has yet to find
			runtime.ReadMemStats(&now)
			heap = max(heap, now.HeapAlloc-min(before.HeapAlloc, now.HeapAlloc))
		}
	}
}

// TestMemoryOfHostileFiles shows that what all connections hold is bounded: each has
// octets behind a hole that never closes, FPDUs that never end, or Read Requests
// that nobody answers.
func TestMemoryOfHostileFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 50 MB")
	}
	const conns, limit = 30, 4 << 20
	zeros := make([]byte, 60000)
	// Each plays one connection after its startup.
	for name, play := range map[string]func(k *talk){
		"holes": func(k *talk) {
			k.skip(0, zeros)
			for range 16 {
				k.send(0, zeros)
			}
		},
		"small FPDUs behind a hole": func(k *talk) {
			k.skip(0, zeros[:8])
			for range 3 {
				k.send(0, zeros[:40000])
			}
		},
		"FPDUs without end": func(k *talk) {
			for dir := range 2 {
				k.send(dir, []byte{0xff, 0xf0}, zeros)
			}
		},
		"segments of one octet": func(k *talk) {
			k.send(0, []byte{0xff, 0xf0})
			for range 4000 {
				k.send(0, zeros[:1])
			}
		},
		"Read Requests": func(k *talk) {
			f := &iwarptest.Framer{NoCRC: true}
			for n := range uint32(4000) {
				k.send(0, f.Frame(iwarptest.ReadRequest(n+1, 1, 2, 3, 4, 5)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			out := newPcapOut(binary.LittleEndian, true, 1)
			n := 0
			r := &octets{out: out, more: func() bool {
				k := newTalk(out)
				k.port[0] = uint16(1000 + n)
				k.start(0, 0)
				play(k)
				n++
				return n < conns
			}}
			heap, how := peak(t, r, &analysis.ReaderOptions{MaxMemory: limit, NoAnomalies: true})
			t.Logf("%d KiB, %v", heap>>10, how)
			if heap > limit {
				t.Errorf("%d octets of heap with a limit of %d", heap, limit)
			}
			if n := how["evicted"] + how["end of capture"]; n != conns {
				t.Errorf("%v", how)
			}
		})
	}
}

// TestHugeSegment shows that a frame that claims to be one segment of 64 MB is not
// taken for one.
func TestHugeSegment(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 1)
	k := newTalk(out)
	k.start(0, 0)
	p := onEthernet(k.packet(0, k.seq[0], tcpACK, make([]byte, 8<<20)))
	p[14+2], p[14+3] = 0, 0 // the length is left to the frame
	out.add(p, 0)
	all, r, err := events(t, out.b, nil)
	if err != nil || len(all) > 20 {
		t.Errorf("%d events, %v", len(all), err)
	}
	if s := r.Stats(); s.NotTCP != 1 {
		t.Errorf("%+v", s)
	}
}

// TestInterfaceNames shows that names of interfaces are not kept at any length.
func TestInterfaceNames(t *testing.T) {
	le := binary.LittleEndian
	block := func(kind uint32, body []byte) []byte {
		n := uint32(12 + len(body))
		b := le.AppendUint32(le.AppendUint32(nil, kind), n)
		return le.AppendUint32(append(b, body...), n)
	}
	file := block(0x0a0d0d0a,
		append(le.AppendUint32(nil, 0x1a2b3c4d), 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255))
	name := strings.Repeat("\x1b[31m", 10000)
	opt := append(le.AppendUint16(le.AppendUint16([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 2), uint16(len(name))), name...)
	for range 100 {
		file = append(file, block(1, opt)...)
	}
	_, r, err := events(t, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := r.Info().Interfaces
	if len(i) != 100 || len(i[0].Name) > 256 {
		t.Errorf("%d interfaces, the first with a name of %d octets", len(i), len(i[0].Name))
	}
}

// TestAfterReset shows that a connection is followed on if the end that seems to have
// reset it sends on, and not if the other one does.
func TestAfterReset(t *testing.T) {
	for dir, want := range []int{2, 1} {
		d := newDeal(0x40, 0x40)
		d.send(0, iwarptest.Request(0x40, 1, nil))
		d.send(1, iwarptest.Reply(0x40, 1, nil))
		d.hello()
		d.raw(0, d.seq[0]+77, tcpRST, nil)
		d.say(dir, iwarptest.Send(2, []byte("still here")))
		all, _, err := events(t, d.out.b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(of[*analysis.Opened](all)); n != want {
			t.Errorf("half %d sends on: %d connections, want %d", dir, n, want)
		}
		if v := of[*analysis.Verdict](all); len(v) > 0 {
			t.Errorf("%+v", v[0])
		}
	}
}

// TestPortsAnew shows that a connection is told from the one before with its ports,
// also where its SYN is not in the capture.
func TestPortsAnew(t *testing.T) {
	for name, c := range map[string]struct {
		seq  [2]uint32
		skip int // frames of the handshake
	}{
		"all of it":            {seq: [2]uint32{900, 700}, skip: 0},
		"no first SYN":         {seq: [2]uint32{900, 700}, skip: 1},
		"no handshake":         {seq: [2]uint32{3 << 30, 3<<30 + 9}, skip: 3},
		"no handshake, before": {seq: [2]uint32{1<<32 - 1<<30, 1<<32 - 1<<30}, skip: 3},
	} {
		t.Run(name, func(t *testing.T) {
			out := ownOut()
			for round, seq := range [][2]uint32{{1000, 5000}, c.seq} {
				k := newTalk(out)
				k.seq = seq
				at := len(out.b)
				k.open()
				if round == 1 { // leave frames out
					head, recs := records(append(make([]byte, 24), out.b[at:]...))
					_ = head
					out.b = append(out.b[:at], bytes.Join(recs[c.skip:], nil)...)
				}
				k.send(0, iwarptest.Request(0x40, 1, nil))
				k.send(1, iwarptest.Reply(0x40, 1, nil))
				f := &iwarptest.Framer{}
				for n := range uint32(20) {
					k.send(0, f.Frame(iwarptest.Send(n+1, fmt.Appendf(nil, "message %d", n))))
					k.send(1, f.Frame(iwarptest.Send(n+1, fmt.Appendf(nil, "answer %d", n))))
				}
			}
			all, _, err := events(t, out.b, nil)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(of[*analysis.Opened](all)); n != 2 {
				t.Errorf("%d connections", n)
			}
			if v := of[*analysis.Verdict](all); len(v) > 0 {
				t.Errorf("%+v", v[0])
			}
			if n := len(of[*analysis.Message](all)); n < 80-6 {
				t.Errorf("%d messages", n)
			}
		})
	}
}
