package iwarp_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// Reads of one connection take no place of another's: while one peer has all its
// Reads under way and takes no data, another's are answered.
// Shows: SEC-6.4.3.3-01, RDMAP-8.1.2-06, RDMAP-5.5-02, DDP-5.3-03
func TestReadsOfOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, nil)
		x, y := pipe(&iwarptest.PipeConfig{Window: 1 << 10})
		v, p := serverOn(t, x, y, &iwarp.Config{Device: d, IRD: 2})
		mr := must(v.NewMR(make([]byte, 100_000), iwarp.RemoteRead))(t)
		defer mr.Close()
		p.Send(iwarptest.ReadRequest(1, 1, 0, 100_000, uint32(mr.STag()), 0),
			iwarptest.ReadRequest(2, 1, 0, 100_000, uint32(mr.STag()), 0))
		synctest.Wait()
		a, b := bystanders(t, d)
		other := must(b.NewMR(pattern(1000), iwarp.RemoteRead))(t)
		defer other.Close()
		got := make([]byte, 1000)
		for range 10 {
			check(t, "Read of the bystander", a.RDMARead(testContext(t), got, other.Remote()))
		}
		if !bytes.Equal(got, pattern(1000)) {
			t.Error("other octets")
		}
		closeBoth(t, a, b)
	})
}

// The depths of Reads have a cap, which neither the program nor the peer gets
// above.
// Shows: SEC-6.4.3.3-02, RDMAP-8.1.1-11
func TestReadCap(t *testing.T) {
	d := newDevice(t, &iwarp.DeviceConfig{MaxRead: 3})
	for _, cfg := range []*iwarp.Config{{Device: d, IRD: 4}, {Device: d, ORD: 4}} {
		x, y := pipe(nil)
		if _, err := iwarp.Client(testContext(t), x, cfg); !errors.Is(err, iwarp.ErrLimit) {
			t.Errorf("IRD %d, ORD %d: %v", cfg.IRD, cfg.ORD, err)
		}
		_ = y.Close()
	}
	x, y := pipe(nil)
	a, b := startOn(t, x, y, &iwarp.Config{IRD: 1000, ORD: 1000}, &iwarp.Config{Device: d})
	if st := b.ConnectionState(); st.IRD > 3 || st.ORD > 3 {
		t.Errorf("the capped end has IRD %d, ORD %d", st.IRD, st.ORD)
	}
	if st := a.ConnectionState(); st.ORD > 3 {
		t.Errorf("its peer has ORD %d", st.ORD)
	}
}
