package rdmap_test

import (
	"bytes"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Shows: RDMAP-8.1.1-03
// FuzzStream hands a stream of either role segments that a peer made up. Each is
// a length octet and so many octets; STags 1 to 5 in it stand for those of the
// stream's regions and sinks, which nobody can guess. It must not panic, not
// touch memory outside, not complete twice, and not answer for ever.
func FuzzStream(f *testing.F) {
	add := func(mode byte, segs ...[]byte) {
		var in []byte
		for _, s := range segs {
			in = append(append(in, byte(len(s))), s...)
		}
		f.Add(mode, in)
	}
	add(0, iwarptest.Send(1, []byte("hello")), iwarptest.Write(1, 0, []byte("data")), iwarptest.Send(2, nil))
	add(1, iwarptest.ReadRequest(1, 9, 0, 16, 1, 0), iwarptest.FetchAdd(2, 7, 1, 8, 1, 0),
		iwarptest.CmpSwap(3, 8, 1, 0, 0, 5))
	add(0, iwarptest.ReadResponse(3, 0, make([]byte, 16)), iwarptest.AtomicResponse(1, 1, 5),
		iwarptest.ReadResponse(4, 0, make([]byte, 16)))
	add(2, iwarptest.AtomicResponse(1, 1, 5), iwarptest.ReadResponse(3, 0, make([]byte, 16)),
		iwarptest.ReadResponse(4, 0, make([]byte, 16)))
	add(1, iwarptest.SendInvalidate(1, 2, []byte("bye")), iwarptest.Write(2, 0, []byte("x")))
	add(2, iwarptest.Immediate(1, [8]byte{1}), iwarptest.ImmediateSolicited(2, [8]byte{2}))
	add(0, iwarptest.Terminate(0x0100, iwarptest.ReadRequest(1, 3, 0, 16, 5, 0)))
	add(3, iwarptest.Terminate(0x2002, nil), iwarptest.Send(1, nil))
	add(1, unhex(f, "4147 00000000 00000002 00000001 00000000 0109e000"))
	f.Fuzz(func(t *testing.T, mode byte, in []byte) {
		fuzzStream(t, mode, in)
	})
}

func fuzzStream(t *testing.T, mode byte, in []byte) {
	e := newEnd(t, func(c *rdmap.Config) {
		c.Initiator, c.Unordered = mode&1 == 0, mode&2 != 0
		if mode&4 != 0 {
			c.RTR = 7
		}
	})
	e.llp.mulpdu, e.llp.limit = 64, 4
	mem, inv := wordMemory(t, make([]uint64, 8)...), guarded(t, 8)
	sinks := [][]byte{guarded(t, 16), guarded(t, 16)}
	e.postRecv(0, 8, 16, 200)
	e.post(read(0, sinks[0]))
	e.post(rdmap.SendWR{ID: 1, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: 7}})
	e.post(read(2, sinks[1]))
	e.post(send(3, "behind"))
	stags := [][]byte{1: nil, 2: nil, 3: nil, 4: nil, 5: nil}
	stags[1] = be32(uint32(e.register(mem, allRights).STag()))
	stags[2] = be32(uint32(e.register(inv, allRights).STag()))
	e.transmit()
	stags[3], stags[4], stags[5] = e.llp.sent[0][18:22], e.llp.sent[2][18:22], be32(1)
	results, snapshot := 0, map[int]string{}
	e.onDone = func(c *rdmap.Completion) {
		if int(c.ID) != results {
			t.Fatalf("request %d completes, want %d", c.ID, results)
		}
		results++
		if i := int(c.ID) / 2; c.Op == rdmap.OpRead {
			snapshot[i] = string(sinks[i])
		}
	}
	for order := uint64(0); len(in) > 0; order++ {
		n := min(int(in[0]), len(in)-1)
		seg := bytes.Clone(in[1 : 1+n])
		in = in[1+n:]
		substitute(seg, stags)
		at := order
		if mode&2 != 0 {
			at ^= uint64(mode>>3) & 3 // out of order
		}
		if err := e.s.Receive(at, seg); err != nil && (err.Detail == "" && !err.Remote) {
			t.Errorf("an error without detail: %v", err)
		}
		e.transmit()
	}
	failed := e.s.Err() != nil
	if err := e.s.PeerClosed(); err == nil && failed {
		t.Error("the error is forgotten")
	}
	e.transmit()
	e.s.StopReceive()
	if e.s.Err() != nil && results != 4 {
		t.Errorf("%d completions of 4", results)
	}
	for i, want := range snapshot {
		if string(sinks[i]) != want {
			t.Error("a sink was written after its completion")
		}
	}
}

// substitute puts real STags where the segment has small numbers.
func substitute(seg []byte, stags [][]byte) {
	for _, at := range []int{2, 18 + 16, 18 + 8} {
		if len(seg) >= at+4 && bytes.Equal(seg[at:at+3], []byte{0, 0, 0}) {
			if i := int(seg[at+3]); i > 0 && i < len(stags) {
				copy(seg[at:], stags[i])
			}
		}
	}
}

func be32(v uint32) []byte { return []byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)} }
