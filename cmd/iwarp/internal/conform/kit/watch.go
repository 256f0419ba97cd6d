package kit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// watch notices that the endpoint under test has gone, or that the run is over for another reason.
type watch struct {
	probing sync.Mutex // held by who finds out whether the endpoint has gone

	mu       sync.Mutex
	running  []string // ids of the cases under way
	last     time.Time
	over     string // why no more cases begin
	gone     string // why that is the endpoint's fault
	inFlight []string
}

// reached notes that there was a connection.
func (w *watch) reached() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
}

// begin notes that a case begins; over says why it must not.
func (w *watch) begin(id string) (over string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == "" {
		w.running = append(w.running, id)
	}
	return w.over
}

func (w *watch) end(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.running, id); i >= 0 {
		w.running = slices.Delete(w.running, i, i+1)
	}
}

// stop has no more cases begin. A reason why the endpoint has gone is kept with the cases under way.
func (w *watch) stop(over, gone string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over == "" {
		w.over = over
	}
	if gone != "" && w.gone == "" {
		w.gone, w.inFlight = gone, slices.Clone(w.running)
	}
}

// isGone reports whether the endpoint has gone, and when a case last had a connection.
func (w *watch) isGone() (bool, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone != "", w.last
}

// goneReason is what a case is not run for.
const goneReason = "the endpoint had gone"

// step runs a case, if the run is not over.
func (k *kit) step(ctx context.Context, c *Case) *Result {
	if over := k.watch.begin(c.ID); over != "" {
		return k.done(&Result{Case: c, Status: NotRun, Reason: over}, nil)
	}
	defer k.watch.end(c.ID)
	return k.run(ctx, c)
}

// judge draws conclusions from a result for the rest of the run.
func (k *kit) judge(ctx context.Context, res *Result) {
	if ctx.Err() == nil && res.unreached && k.hasGone(ctx, res.Reason) && !res.reached {
		res.Status, res.Reason = NotRun, goneReason
		return
	}
	if k.o.FailFast && res.Status == Fail && k.o.Known[res.Case.ID] == "" {
		k.watch.stop("a case had failed: "+res.Case.ID, "")
	}
}

// hasGone finds out whether the endpoint can still be reached, after a case that could not. One that comes back within
// the time of an answer has not gone.
func (k *kit) hasGone(ctx context.Context, reason string) bool {
	k.watch.probing.Lock()
	defer k.watch.probing.Unlock()
	gone, last := k.watch.isGone()
	switch {
	case gone:
		return true
	case k.o.Role == Responder: // clients come of their own accord: the case has waited for one
		gone = time.Since(last) >= k.o.Wait
	default:
		gone = !k.comesBack(ctx)
	}
	if gone && ctx.Err() == nil {
		k.watch.stop(goneReason, fmt.Sprintf("no good connection within %v any more: %s", k.waited(), reason))
		return true
	}
	return false
}

// waited is how long the kit waits for an endpoint that may have gone.
func (k *kit) waited() time.Duration {
	if k.o.Role == Responder {
		return k.o.Wait
	}
	return k.o.Timeout
}

// comesBack tries good connections for a while.
func (k *kit) comesBack(ctx context.Context) bool {
	const pause = 100 * time.Millisecond
	good := &Case{ID: "good connection", Roles: Either}
	for end := time.Now().Add(k.o.Timeout); ctx.Err() == nil; {
		if k.try(ctx, good, func(s *session) { s.good() }).Status == Pass {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return true
}
