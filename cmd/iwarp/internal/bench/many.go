package bench

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/internal/procstat"
)

// What is measured of several connections at once: whether they get on alike, and what each costs.

// jain is Jain's index of fairness: 1 where all are alike, 1/n where one of n has all.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, v := range shares {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (squares * float64(len(shares)))
}

// fairness watches how far the connections of a link are during a sample.
type fairness struct {
	link  benchLink
	start []uint64
	looks [][]uint64
	stop  chan struct{}
	wg    sync.WaitGroup
}

// maxLooks bounds how often a sample is looked at.
const maxLooks = 128

// watchFairness looks at the connections every so often, until index is called.
func watchFairness(l benchLink, conns int, every time.Duration) *fairness {
	f := &fairness{link: l, start: make([]uint64, conns), stop: make(chan struct{})}
	l.progress(f.start)
	f.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for len(f.looks) < maxLooks {
			select {
			case <-f.stop:
				return
			case <-tick.C:
			}
			look := make([]uint64, conns)
			l.progress(look)
			f.looks = append(f.looks, look)
		}
	})
	return f
}

// index is the fairness when half of everything was done, or at the nearest look; 0 if nobody looked.
func (f *fairness) index() float64 {
	close(f.stop)
	f.wg.Wait()
	end := make([]uint64, len(f.start))
	f.link.progress(end)
	half := f.done(end) / 2
	var best []float64
	least := half
	for _, look := range f.looks {
		if d := f.done(look) - half; d < least && d > -least {
			least = max(d, -d)
			best = best[:0]
			for i := range look {
				best = append(best, float64(look[i]-f.start[i]))
			}
		}
	}
	if best == nil {
		return 0
	}
	return jain(best)
}

// done is the sum of what all connections have done since the start.
func (f *fairness) done(look []uint64) (sum float64) {
	for i := range look {
		sum += float64(look[i] - f.start[i])
	}
	return sum
}

// memoryInUse is this process's memory, in octets, without what is garbage.
func memoryInUse() uint64 {
	debug.FreeOSMemory()
	return procstat.Resident()
}

// memory is that of both ends, in octets; 0 where nobody can tell, and where there is one connection only.
func (b *benchClient) memory(ctx context.Context, conns int) (float64, error) {
	if conns == 1 {
		return 0, nil
	}
	here := memoryInUse()
	if b.One && b.Server == nil {
		return float64(here), nil
	}
	reply, err := b.ctl.ask(ctx, benchMsg{Do: doMemory})
	return float64(here + reply.Usage.Memory), err
}

// perConn is what the memory has grown by for each connection; 0 where that is not known.
func perConn(before, after float64, conns int) float64 {
	if before == 0 || after <= before {
		return 0
	}
	return (after - before) / float64(conns)
}

// enoughFiles lets this process and the other end have as many files as the connections take. Where there are not
// enough for those of the baseline too, it comes afterwards: apart.
func (c *Command) enoughFiles() (apart bool, err error) {
	const besides = 64
	ends := uint64(1)
	if c.One {
		ends = 2
	}
	one := ends*uint64(c.Conns) + besides
	if c.Baseline {
		if _, err := procstat.RaiseFiles(one + ends*uint64(c.Conns)); err == nil {
			return false, nil
		}
	}
	if have, err := procstat.RaiseFiles(one); err != nil {
		return false,
			fmt.Errorf("--conns %d: it takes %d file descriptors, and this process may have %d (ulimit -n): %w",
				c.Conns, one, have, err)
	}
	return c.Baseline, nil
}
