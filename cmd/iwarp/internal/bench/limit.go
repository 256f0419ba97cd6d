package bench

import (
	"context"
	"fmt"
	"time"
)

// benchLimit is what keeps a result from being better, where bench can tell.
type benchLimit string

const (
	limitORD   benchLimit = "ord"
	limitDepth benchLimit = "depth"
)

// farAway is a round trip from which on what is under way at once decides, and not the machines.
const farAway = time.Millisecond

// roundTrip is the least time that a request and its reply take.
func (b *benchClient) roundTrip(ctx context.Context) (time.Duration, error) {
	least := time.Duration(0)
	for i := range 3 {
		start := time.Now()
		if _, err := b.ctl.ask(ctx, benchMsg{Do: doHello}); err != nil {
			return 0, err
		}
		if took := time.Since(start); i == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

// limit finds out whether what is under way at once is what limits a result, on a connection to an end far away: as
// many octets pass in a round trip as may be under way.
func (r *benchResult) limit(trip time.Duration, ord int) {
	if trip < farAway || r.Lat {
		return
	}
	r.trip, r.ord = trip, ord
	most, by, share := r.Depth, limitDepth, 0.7
	switch {
	case r.Op == opWrite:
		return // complete when the socket has them: TCP decides
	case r.Op.asks() && ord > 0 && ord < r.Depth:
		most, by = ord, limitORD
	case !r.Op.asks():
		_, receives := r.queues()
		most, share = receives-immReserve, 0.5 // the other end's receives, posted again half by half
	}
	reached := r.ours.GBps * 1e9 * trip.Seconds() / float64(r.Size) / float64(r.Conns)
	if reached > float64(most)*share {
		r.limitedBy = by
	}
}

// limitText says what limits, and what would help.
func (r *benchResult) limitText() string {
	trip := r.trip.Round(10 * time.Microsecond)
	switch r.limitedBy {
	case limitORD:
		return fmt.Sprintf("limited by ORD: %d under way at once, with a round trip of %v. More: --ord here and "+
			"--ird at the other end\n",
			r.ord, trip)
	case limitDepth:
		return fmt.Sprintf("limited by --depth %d, with a round trip of %v\n", r.Depth, trip)
	}
	return ""
}
