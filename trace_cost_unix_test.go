//go:build unix

package iwarp_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp"
)

// processorTime is what this process has had so far.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u unix.Rusage
	check(tb, "getrusage", unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTraceCost is what a Trace that counts adds to the processor time of 64-octet
// Writes, both ends and the kernel together: batches of 64 on connections that differ in
// that alone, in turn, thousands of Writes at a time. The overhead is the median of the pairs'.
//
//	go test -run '^$' -bench TraceCost -benchtime 2000000x -count 10 .
func BenchmarkTraceCost(b *testing.B) {
	const batch, round = 64, 20_000
	var n struct{ posted, completed, octets, fpdus atomic.Int64 }
	counting := &iwarp.Trace{
		Posted: func(_ *iwarp.Conn, wrs []iwarp.SendWR) { n.posted.Add(int64(len(wrs))) },
		Completed: func(_ *iwarp.Conn, list []iwarp.CompletionTrace) {
			var octets int64
			for i := range list {
				octets += int64(list[i].Length)
			}
			n.completed.Add(int64(len(list)))
			n.octets.Add(octets)
		},
		FPDUs: func(_ *iwarp.Conn, f iwarp.FPDUTrace) { n.fpdus.Add(int64(f.Sent)) },
	}
	for _, bb := range []struct {
		name  string
		trace *iwarp.Trace
	}{{"nothing", nil}, {"counting", counting}} {
		b.Run(bb.name, func(b *testing.B) {
			var pairs [4][2]func(int) // several, as where memory lies makes a connection faster or slower
			for i := range pairs {
				pairs[i] = [2]func(int){writer(b, nil, batch), writer(b, bb.trace, batch)}
				pairs[i][0](round)
				pairs[i][1](round)
			}
			var without, with time.Duration
			var ratios []float64
			for i := 0; i < b.N || len(ratios) < 2; i += round {
				var took [2]time.Duration
				for j := range took { // who is first changes
					which := (j + len(ratios)) % 2
					at := processorTime(b)
					pairs[len(ratios)/2%len(pairs)][which](round)
					took[which] = processorTime(b) - at
				}
				without, with = without+took[0], with+took[1]
				ratios = append(ratios, float64(took[1])/float64(took[0]))
			}
			slices.Sort(ratios)
			all := float64(len(ratios) * round)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(without)/all, "nil-cpu-ns/Write")
			b.ReportMetric(float64(with)/all, "cpu-ns/Write")
			b.ReportMetric(100*(ratios[len(ratios)/2]-1), "%-more")
		})
	}
	if n.posted.Load() == 0 || n.completed.Load() == 0 || n.octets.Load() == 0 || n.fpdus.Load() == 0 {
		b.Errorf("not told of: %+v", &n)
	}
}

// writer makes a connection over TCP with this Trace at both ends, and returns what does so
// many Writes on it, a batch with each call, and waits until they are done.
func writer(b *testing.B, trace *iwarp.Trace, batch int) func(writes int) {
	b.Helper()
	cfg := &iwarp.Config{Trace: trace, SendDepth: 2 * batch}
	x, y := tcpPair(b, cfg, cfg)
	mr := must(y.NewMR(make([]byte, 64), iwarp.RemoteWrite|iwarp.RemoteRead))(b)
	wrs := make([]iwarp.SendWR, batch)
	for i := range wrs {
		wrs[i] = iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 64)}, Remote: mr.Remote(), Unsignaled: true}
	}
	return func(writes int) {
		for range writes / batch {
			check(b, "PostSend", x.QP().PostSend(wrs...))
			check(b, "Drain", x.Drain(b.Context()))
		}
		check(b, "Read", x.RDMARead(b.Context(), make([]byte, 1), mr.Remote().Slice(0, 1))) // all have come
	}
}
