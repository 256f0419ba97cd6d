package iwarp_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// With and without CRC, a program sees the same: each call, completion and
// message.
// Shows: MPA-4.4-06
func TestCRCIsInvisible(t *testing.T) {
	var seen [2][]iwarp.Completion
	for i, crc := range []bool{true, false} {
		cfg := &iwarp.DeviceConfig{}
		if !crc {
			cfg.CRCSuppression = &iwarp.CRCSuppression{
				Protection: "a test", Peers: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			}
		}
		d := newDevice(t, cfg)
		a, b := newQP(t, d, nil), newQP(t, d, nil)
		tcpPair(t, &iwarp.Config{QP: a}, &iwarp.Config{QP: b})
		if st := a.Conn().ConnectionState(); st.CRC != crc {
			t.Fatalf("the CRC is %t, want %t", st.CRC, crc)
		}
		mr := must(b.PD().NewMR(make([]byte, 100_000), iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic,
			&iwarp.MROptions{QP: b}))(t)
		window := mr.Remote()
		check(t, "PostRecv",
			b.PostRecv(iwarp.RecvWR{ID: 1, SG: [][]byte{make([]byte, 100)}}, iwarp.RecvWR{ID: 2}, iwarp.RecvWR{ID: 3}))
		sink := make([]byte, 70_000)
		check(t, "PostSend", a.PostSend(
			iwarp.SendWR{ID: 10, Op: iwarp.OpWrite, SG: [][]byte{pattern(70_000)}, Remote: window},
			iwarp.SendWR{ID: 11, Op: iwarp.OpRead, SG: [][]byte{sink}, Remote: window},
			iwarp.SendWR{ID: 12, Op: iwarp.OpFetchAdd, Remote: remoteAt(mr, 80_000), Operand: 3},
			iwarp.SendWR{ID: 13, Op: iwarp.OpSend, SG: [][]byte{[]byte("hello")}, Solicited: true},
			iwarp.SendWR{ID: 14, Op: iwarp.OpImmediate, Immediate: 99},
			iwarp.SendWR{ID: 15, Op: iwarp.OpSendInvalidate, Invalidate: mr.STag(), Fence: true},
		))
		all := append(collect(t, a.SendCQ(), 6), collect(t, b.RecvCQ(), 3)...)
		for j := range all {
			if all[j].Invalidated == mr.STag() {
				all[j].Invalidated = 1 // random
			}
			all[j].QP = nil
		}
		seen[i] = all
		if !bytes.Equal(sink, pattern(70_000)) {
			t.Errorf("CRC %t: the Read gave other octets", crc)
		}
	}
	for i := range seen[0] {
		if seen[0][i] != seen[1][i] {
			t.Errorf("completion %d with a CRC is %+v, without %+v", i, seen[0][i], seen[1][i])
		}
	}
}
