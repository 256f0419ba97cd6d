package iwarp_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// Times are not asserted anywhere, since machines are shared: what speed comes
// from is.

// pump posts count Writes, as many at a time as the queue takes, and waits for all.
func pump(t *testing.T, q *iwarp.QP, wr iwarp.SendWR, count, depth int) {
	t.Helper()
	list := make([]iwarp.SendWR, depth)
	for i := range list {
		list[i] = wr
	}
	comps := make([]iwarp.Completion, depth)
	for posted, done := 0, 0; done < count; {
		if n := min(depth-(posted-done), count-posted); n > 0 {
			check(t, "PostSend", q.PostSend(list[:n]...))
			posted += n
		}
		n, err := q.SendCQ().Wait(context.Background(), comps)
		check(t, "Wait", err)
		for _, c := range comps[:n] {
			check(t, "Write", c.Err)
		}
		done += n
	}
}

// Many FPDUs share a system call, at both ends.
func TestFewSystemCalls(t *testing.T) {
	if runtime.GOOS != "linux" || raceEnabled {
		t.Skip("batched writes need Linux, and a receiver that keeps up")
	}
	a, b := qpPair(t, nil, nil)
	const size = 1 << 20
	mr := must(b.PD().NewMR(make([]byte, size), iwarp.RemoteWrite, nil))(t)
	defer mr.Close()
	calls := func() uint64 { return a.Conn().Stats().MPA.SystemCalls + b.Conn().Stats().MPA.SystemCalls }
	src := [][]byte{make([]byte, size)}

	before := calls()
	const large = 64
	pump(t, a, iwarp.SendWR{Op: iwarp.OpWrite, SG: src, Remote: mr.Remote()}, large, 4)
	// Plain TCP makes 6 for each MiB; a write for each FPDU would be 17, and a read
	// as many.
	if n := float64(calls()-before) / large; n > 24 {
		t.Errorf("%.1f system calls for a Write of 1 MiB", n)
	}

	before = calls()
	const small = 6400
	pump(t, a, iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{src[0][:64]}, Remote: mr.Remote()}, small, 64)
	if n := float64(calls()-before) / small; n > 0.2 {
		t.Errorf("%.2f system calls for a Write of 64 octets", n)
	}
}

// An idle connection, which has carried a message each way, holds no buffers.
func TestIdleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
	const n, limit = 100, 2 * 32 << 10 // octets, for both ends
	use := func() int64 {
		runtime.GC()
		runtime.GC() // the first leaves what pools hold
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	dev := newDevice(t, nil)
	before := use()
	for range n {
		a, b := tcpPair(t, &iwarp.Config{Device: dev}, &iwarp.Config{Device: dev})
		check(t, "Send", a.Send(t.Context(), []byte("ping")))
		wantRecv(t, b, "ping")
		check(t, "Send", b.Send(t.Context(), []byte("pong")))
		wantRecv(t, a, "pong")
	}
	if each := (use() - before) / n; each > limit {
		t.Errorf("an idle connection takes %d octets at both ends together, want at most %d", each, limit)
	}
}
