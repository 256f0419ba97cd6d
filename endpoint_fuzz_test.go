package iwarp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// deedScript is a fuzzer's octets, read as decisions.
type deedScript []byte

func (s *deedScript) octet() byte {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return b
}

func (s *deedScript) below(n int) int { return int(s.octet()) % n }

func (s *deedScript) octets(n int) []byte {
	n = min(n, len(*s))
	b := bytes.Clone((*s)[:n])
	*s = (*s)[n:]
	return b
}

// fuzzed is an endpoint whose peer does what a script says.
type fuzzed struct {
	t      *testing.T
	s      deedScript
	c      *iwarp.Conn
	p      *iwarptest.Peer
	rw, ro *guarded
	mrs    []*iwarp.MR
	send   uint32 // MSN of QN 0
	reads  uint32 // MSN of QN 1
	posted uint64
	ended  bool // the peer has ended its half

	mu   sync.Mutex
	sink []uint32 // sink STags of the Reads that have come
}

// FuzzEndpoint has a whole endpoint, in either role, meet a peer that sends well-
// and malformed FPDUs in any order, while its program uses it. Whatever comes:
// memory that the peer has no right to stays as it is, every request completes
// once and in order, and the connection ends when the peer is gone.
func FuzzEndpoint(f *testing.F) {
	for role := range byte(8) {
		for first := range byte(numDeeds) {
			f.Add([]byte{
				role, first, 10, 20, 30, 40, 50, 60, first + 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, first + 2, 0, 0, 0, 0, 0, 0,
				0, 0,
			})
		}
	}
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		synctest.Test(t, func(t *testing.T) { fuzzEndpoint(t, data) })
	})
}

func fuzzEndpoint(t *testing.T, data []byte) {
	v := &fuzzed{t: t, s: data, rw: newGuarded(200), ro: newGuarded(100)}
	copy(v.ro.mem, pattern(100))
	how := v.s.octet()
	cfg := &iwarp.Config{IRD: 32, ORD: 2, RecvDepth: 4, RecvSize: 100, SendDepth: 8, CloseTimeout: time.Second}
	x, y := pipe(&iwarptest.PipeConfig{Window: 1 << (8 + how>>4), MaxRead: int(how>>2&3) * 7})
	if how&1 == 0 {
		v.c, v.p = clientOn(t, x, y, cfg)
	} else {
		v.c, v.p = serverOn(t, x, y, cfg)
	}
	all := iwarp.RemoteRead | iwarp.RemoteWrite | iwarp.RemoteAtomic
	v.mrs = append(v.mrs, must(v.c.NewMR(v.rw.mem, all))(t), must(v.c.NewMR(v.ro.mem, iwarp.RemoteRead))(t),
		must(v.c.PD().NewMR(nil, all, nil))(t))
	var readers sync.WaitGroup
	readers.Go(v.read)
	received := make(chan int, 1)
	go func() { received <- v.recvAll() }()
	for len(v.s) > 0 && !v.ended {
		deeds[v.below(len(deeds))](v)
		if v.s.octet()&3 == 0 {
			synctest.Wait()
		}
	}
	if !v.ended {
		_ = v.p.Conn.(*iwarptest.Conn).CloseWrite()
	}
	closed := v.c.Close()
	if closed != nil && v.c.Err() == nil {
		t.Errorf("Close: %v, without an error of the connection", closed)
	}
	<-v.c.Done()
	<-received
	_ = v.p.Conn.Close()
	readers.Wait()
	v.check()
}

func (v *fuzzed) below(n int) int { return v.s.below(n) }

// recvAll fetches messages until there are none.
func (v *fuzzed) recvAll() (n int) {
	for {
		buf := make([]byte, 100)
		m, err := v.c.Recv(v.t.Context(), buf)
		if err != nil {
			if errors.Is(err, iwarp.ErrShortBuffer) {
				v.t.Errorf("a message of %d octets for buffers of 100", m.Length)
			}
			return n
		}
		n++
	}
}

// read takes what the endpoint sends and keeps the sinks of its Reads.
func (v *fuzzed) read() {
	var got []byte
	in := v.p.In
	buf := make([]byte, 4096)
	for {
		n, err := v.p.Conn.Read(buf)
		got = append(got, buf[:n]...)
		for {
			seg, used, uerr := in.Unframe(got)
			if used == 0 || uerr != nil {
				break
			}
			got = got[used:]
			if len(seg) == 46 && seg[1]&15 == 1 {
				v.mu.Lock()
				v.sink = append(v.sink, binary.BigEndian.Uint32(seg[18:]))
				v.mu.Unlock()
			}
		}
		if err != nil {
			return
		}
	}
}

// check is what must hold whatever has come.
func (v *fuzzed) check() {
	v.t.Helper()
	v.rw.check(v.t)
	v.ro.check(v.t)
	if !bytes.Equal(v.ro.mem, pattern(100)) {
		v.t.Error("memory without the right to write has changed")
	}
	var c [64]iwarp.Completion
	n := v.c.QP().SendCQ().Poll(c[:])
	if uint64(n) != v.posted {
		v.t.Errorf("%d completions of %d requests", n, v.posted)
	}
	for i := range c[:n] {
		if c[i].ID != uint64(i) {
			v.t.Errorf("completion %d is of request %d", i, c[i].ID)
		}
	}
	for _, mr := range v.mrs {
		mr.Close()
	}
}

func (v *fuzzed) write(octets []byte) { _, _ = v.p.Conn.Write(octets) }

// frame sends a segment in a good FPDU.
func (v *fuzzed) frame(seg []byte) { v.write(v.p.Out.Frame(seg)) }

func (v *fuzzed) stag() uint32 {
	s := uint32(v.mrs[v.below(len(v.mrs))].STag())
	if v.below(4) == 0 {
		s ^= 1 << v.below(32)
	}
	return s
}

func (v *fuzzed) to() uint64 {
	to := uint64(v.octet())
	if v.below(8) == 0 {
		to = -to
	}
	return to
}

func (v *fuzzed) octet() byte { return v.s.octet() }

func (v *fuzzed) post(wr iwarp.SendWR) {
	if v.posted >= 60 {
		return
	}
	wr.ID = v.posted
	if v.c.QP().PostSend(wr) == nil {
		v.posted++
	}
}

// numDeeds is len(deeds), as a constant for the seeds.
const numDeeds = 18

var deeds = [numDeeds]func(v *fuzzed){
	func(v *fuzzed) { v.write(v.s.octets(v.below(32))) },
	func(v *fuzzed) { v.frame(v.s.octets(v.below(64))) },
	func(v *fuzzed) { v.frame(iwarptest.Write(v.stag(), v.to(), v.s.octets(v.below(64)))) },
	func(v *fuzzed) {
		v.frame(iwarptest.Tagged(v.octet()&15, v.below(2) == 0, v.stag(), v.to(), v.s.octets(v.below(64))))
	},
	func(v *fuzzed) { v.send++; v.frame(iwarptest.Send(v.send, v.s.octets(v.below(110)))) },
	func(v *fuzzed) { // in two segments
		v.send++
		a, b := v.s.octets(v.below(60)), v.s.octets(v.below(60))
		v.frame(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: v.send}, a))
		v.frame(iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: v.send, MO: uint32(len(a))}, b))
	},
	func(v *fuzzed) {
		v.frame(iwarptest.Untagged(iwarptest.UntaggedHeader{
			Opcode: v.octet() & 15, Last: v.below(2) == 0, Invalidate: v.stag(), QN: uint32(v.below(5)),
			MSN: v.send + uint32(v.below(3)), MO: uint32(v.octet()),
		},
			v.s.octets(v.below(64))))
	},
	func(v *fuzzed) {
		v.reads++
		v.frame(iwarptest.ReadRequest(v.reads, uint32(v.octet()), v.to(), uint32(v.octet()), v.stag(), v.to()))
	},
	func(v *fuzzed) {
		v.reads++
		v.frame(iwarptest.AtomicRequest(v.reads, v.octet()&15, 7, v.stag(), v.to()&^7, 1, 0, 0, 0))
	},
	func(v *fuzzed) { v.send++; v.frame(iwarptest.SendInvalidate(v.send, v.stag(), v.s.octets(v.below(8)))) },
	func(v *fuzzed) { v.send++; v.frame(iwarptest.Immediate(v.send, [8]byte(pattern(8)))) },
	func(v *fuzzed) { // an FPDU with a bit that has flipped
		f := v.p.Out.Frame(iwarptest.Write(v.stag(), v.to(), v.s.octets(v.below(64))))
		f[v.below(len(f))] ^= 1 << v.below(8)
		v.write(f)
	},
	func(v *fuzzed) { v.frame(iwarptest.Terminate(uint16(v.octet())<<8|uint16(v.octet()), nil)) },
	func(v *fuzzed) { // an answer to a Read of the endpoint's, rightly or not
		synctest.Wait()
		v.mu.Lock()
		var sink uint32
		if len(v.sink) > 0 {
			sink = v.sink[0]
			v.sink = v.sink[1:]
		}
		v.mu.Unlock()
		v.frame(iwarptest.ReadResponse(sink, uint64(v.below(2)), make([]byte, 10+v.below(3))))
	},
	func(v *fuzzed) { v.frame(iwarptest.AtomicResponse(uint32(v.below(4)), uint32(v.below(4)), 5)) },
	func(v *fuzzed) { // the program
		mem := make([]byte, 10)
		switch v.below(6) {
		case 0:
			v.post(iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{mem}, Remote: iwarp.RemoteBuffer{STag: 1}})
		case 1:
			v.post(iwarp.SendWR{Op: iwarp.OpFetchAdd, Remote: iwarp.RemoteBuffer{STag: 1}})
		case 2:
			v.post(iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{mem}, Fence: true})
		case 3:
			v.post(iwarp.SendWR{Op: iwarp.OpInvalidate, Invalidate: v.mrs[0].STag()})
		case 4:
			v.mrs[0].Rekey(v.octet())
		default:
			v.post(iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 3000)}})
		}
	},
	func(v *fuzzed) { // a FIN, a reset, or neither
		switch v.below(8) {
		case 0:
			_ = v.p.Conn.(*iwarptest.Conn).CloseWrite()
			v.ended = true
		case 1:
			_ = v.p.Conn.(*iwarptest.Conn).Abort()
			v.ended = true
		}
	},
	func(v *fuzzed) { v.c.CloseWrite() },
}
