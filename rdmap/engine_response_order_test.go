package rdmap_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/rdmap"
)

// A Response whose segments do not come in the order of their TOs is as good as
// any, if they bring each octet once; the last one may fill a gap.
//
// Shows: DDP-5.3-02, RDMAP-5.2.2-05
func TestResponseInAnyOrder(t *testing.T) {
	const data = "0123456789"
	type part struct{ from, to int }
	for _, parts := range [][]part{
		{{from: 0, to: 10}},
		{{from: 0, to: 4}, {from: 4, to: 10}},
		{{from: 4, to: 10}, {from: 0, to: 4}},
		{{from: 8, to: 10}, {from: 5, to: 8}, {from: 2, to: 5}, {from: 0, to: 2}},
		{{from: 8, to: 10}, {from: 0, to: 2}, {from: 5, to: 8}, {from: 2, to: 5}},
		{{from: 3, to: 3}, {from: 4, to: 10}, {from: 0, to: 4}},
	} {
		for _, change := range []func(*rdmap.Config){func(*rdmap.Config) {}, unordered} {
			e := newEnd(t, change)
			buf := guarded(t, len(data))
			e.post(rdmap.SendWR{
				ID: 1, Op: rdmap.OpRead, Remote: rdmap.RemoteBuffer{STag: 0x11223344, TO: 0x1000}, SG: cut(buf, 7),
			})
			sink := e.wantRead("the Request", 1, uint32(len(data)), 0x11223344, 0x1000)
			for i, p := range parts {
				e.wantDone("not whole yet", "")
				e.deliver(iwarptest.Tagged(2, i == len(parts)-1, sink, uint64(p.from), []byte(data[p.from:p.to])))
			}
			e.wantDone("whole", "1")
			if string(buf) != data {
				t.Errorf("%v: read %q", parts, buf)
			}
		}
	}
}
