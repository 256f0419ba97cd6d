package iwarp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// R25: a program that writes to the target of a Write meanwhile does no harm:
// the CRC is checked before the octets are placed. (Word by word, so that the
// race detector, which knows only whole slices, is not asked.)
func TestScribbleIntoTarget(t *testing.T) {
	if raceEnabled {
		t.Skip("the scribbling is a data race, on purpose")
	}
	a, b := tcpPair(t, nil, nil)
	mem := make([]byte, 1<<20)
	mr := must(b.NewMR(mem, iwarp.RemoteWrite|iwarp.RemoteRead))(t)
	defer mr.Close()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				mem[i%uint(len(mem))]++
			}
		}
	})
	data, back := pattern(1<<20), make([]byte, 1<<20)
	for range 30 {
		check(t, "Write", a.RDMAWrite(testContext(t), data, mr.Remote()))
		check(t, "Read", a.RDMARead(testContext(t), back, mr.Remote())) // its source changes too
	}
	close(stop)
	wg.Wait()
	if a.Err() != nil || b.Err() != nil || a.Stats().MPA.CRCErrors+b.Stats().MPA.CRCErrors != 0 {
		t.Errorf("errors %v, %v", a.Err(), b.Err())
	}
}

// Many goroutines on one connection, both ways, all operations: every octet is
// where it should be.
func TestConcurrentUse(t *testing.T) {
	const workers, size = 8, 4096
	rounds := 60
	if raceEnabled {
		rounds = 20
	}
	a, b := tcpPair(t, &iwarp.Config{SendDepth: 256, RecvDepth: 1024}, &iwarp.Config{SendDepth: 256, RecvDepth: 1024})
	var wg sync.WaitGroup
	for _, ends := range [][2]*iwarp.Conn{{a, b}, {b, a}} {
		from, to := ends[0], ends[1]
		counter := must(to.NewMR(make([]byte, 8), iwarp.RemoteAtomic|iwarp.RemoteRead))(t)
		for w := range workers {
			mr := must(to.NewMR(make([]byte, size), iwarp.RemoteRead|iwarp.RemoteWrite))(t)
			wg.Go(func() {
				defer mr.Close()
				data, back := make([]byte, size), make([]byte, size)
				for r := range rounds {
					for i := range data {
						data[i] = byte(w + r + i)
					}
					n := rand.IntN(size)
					if err := errors.Join(from.RDMAWrite(t.Context(), data[:n], mr.Remote()),
						from.RDMARead(t.Context(), back[:n], mr.Remote())); err != nil {
						t.Error(err)
						return
					}
					if !bytes.Equal(back[:n], data[:n]) {
						t.Errorf("worker %d, round %d: octets differ", w, r)
						return
					}
					if _, err := from.FetchAdd(t.Context(), counter.Remote(), 1); err != nil {
						t.Error(err)
					}
					if err := from.Send(t.Context(), data[:n%100]); err != nil {
						t.Error(err)
					}
					_, _ = from.Stats(), from.ConnectionState()
				}
			})
		}
		wg.Go(func() {
			buf := make([]byte, size)
			for range workers * rounds {
				if _, err := to.Recv(testContext(t), buf); err != nil {
					t.Error(err)
					return
				}
			}
		})
		defer func() {
			if got := binary.NativeEndian.Uint64(counter.Bytes()); got != workers*uint64(rounds) {
				t.Errorf("the counter is %d, want %d", got, workers*rounds)
			}
			counter.Close()
		}()
	}
	wg.Wait()
	closeBoth(t, a, b)
}

// Atomics from several connections of one domain, and from this program with
// sync/atomic, see one value.
// Shows: EXT-5-01, EXT-5.3-01, EXT-5-04
func TestAtomicsAcrossStreams(t *testing.T) {
	const conns, rounds = 4, 200
	d := newDevice(t, nil)
	pd := must(d.NewPD())(t)
	mem := make([]byte, 8)
	mr := must(pd.NewMR(mem, iwarp.RemoteAtomic, nil))(t)
	defer mr.Close()
	var wg sync.WaitGroup
	var seen [conns*rounds + 1]atomic.Int32
	for range conns {
		a, _ := tcpPair(t, nil, &iwarp.Config{PD: pd})
		wg.Go(func() {
			for range rounds {
				v, err := a.FetchAdd(testContext(t), mr.Remote(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				seen[v].Add(1)
			}
		})
	}
	wg.Wait()
	for v := range conns * rounds {
		if n := seen[v].Load(); n != 1 {
			t.Fatalf("value %d was given %d times", v, n)
		}
	}
}

// R20: a burst of connects; none is refused.
func TestConnectBurst(t *testing.T) {
	n := 200
	if raceEnabled || testing.Short() {
		n = 60
	}
	ln := must(iwarp.Listen("tcp", "127.0.0.1:0", nil))(t)
	defer ln.Close()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c, err := iwarp.Dial(testContext(t), "tcp", ln.Addr().String(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Send(testContext(t), fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			c, err := ln.Accept(testContext(t))
			if err != nil {
				t.Error(err)
				return
			}
			recv(t, c)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// R36, R32: large messages both ways at once do not stall each other.
func TestBothWays(t *testing.T) {
	a, b := qpPair(t, nil, nil)
	const size = 4 << 20
	var wg sync.WaitGroup
	for _, ends := range [][2]*iwarp.QP{{a, b}, {b, a}} {
		mr := must(ends[1].PD().NewMR(make([]byte, size), iwarp.RemoteRead|iwarp.RemoteWrite, nil))(t)
		defer mr.Close()
		wg.Go(func() {
			data, sink := make([]byte, size), make([]byte, size)
			for range 4 {
				err := ends[0].PostSend(
					iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{data[:1000], data[1000:]}, Remote: mr.Remote()},
					iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{sink[:size/2], sink[size/2:]}, Remote: mr.Remote()})
				if err != nil {
					t.Error(err)
					return
				}
				for _, c := range collect(t, ends[0].SendCQ(), 2) {
					if c.Err != nil {
						t.Error(c.Err)
					}
				}
			}
		})
	}
	wg.Wait()
}
