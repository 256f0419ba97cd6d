package kit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"
)

// Connector gives a connection to the endpoint under test: a new one with each
// call. It is called from many goroutines.
type Connector func(ctx context.Context) (net.Conn, error)

// Options say how to run. Nil, and zero in a field, mean the documented default.
type Options struct {
	// Role is the kit's part. Default Initiator.
	Role Role
	// ULP is the program above the endpoint under test. Default Raw.
	ULP ULP
	// Revision of MPA that the kit asks for, where a case does not care: 2, the
	// default, or 1. Of a responder that closes on 2, revision 1 is asked.
	Revision int
	// Markers asks the peer to mark what it sends, in every case.
	Markers bool
	// NoCRC makes the kit go without CRC where the peer does too.
	NoCRC bool
	// Run and Skip are regular expressions that pick cases by id, or by the id of a
	// requirement or report.
	Run, Skip string
	// Gentle leaves out what is known to crash endpoints, and gives the peer time at
	// startup until it is ready for more: Linux siw needs it.
	Gentle bool
	// Timeout is how long the kit waits for an answer that is due at once. Default
	// 5 s. What a peer may take its time for, the end of a startup that is not
	// finished, say, has Patience. Default 15 s.
	Timeout, Patience time.Duration
	// Wait is how long a case waits for its connection. Default 30 s.
	Wait time.Duration
	// Parallel is how many cases run at once. Default 8.
	Parallel int
	// FailFast has no more cases begin once one has failed that is not Known.
	FailFast bool
	// Known has the reasons of failures that are expected, by the id of the case: such a case is a KnownFailure when
	// it fails.
	Known map[string]string
	// Record, if not nil, is called before each case. wrap is put around each of
	// its connections, and done is called when it has ended.
	Record func(c *Case) (wrap func(net.Conn) net.Conn, done func(*Result))
	// Progress, if not nil, is called with each result, from one goroutine at a
	// time.
	Progress func(*Result)
}

func (o *Options) orDefault() Options {
	v := Options{}
	if o != nil {
		v = *o
	}
	def(&v.Role, Initiator)
	def(&v.Revision, 2)
	def(&v.Timeout, 5*time.Second)
	def(&v.Patience, 15*time.Second)
	def(&v.Wait, 30*time.Second)
	def(&v.Parallel, 8)
	return v
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Status is how a case has ended.
type Status uint8

// The ends of a case.
const (
	Pass          Status = iota
	Fail                 // the endpoint broke the rule
	NotApplicable        // it refused an option, or has nothing that the case needs: see Reason
	Inconclusive         // nothing can be said: see Reason
	KnownFailure         // it broke the rule, as [Options].Known has it: see Known
	NotRun               // the run was over before: see Reason
)

// String returns the status in words.
func (s Status) String() string {
	return [...]string{"pass", "fail", "not applicable", "inconclusive", "known failure", "not run"}[s]
}

// MarshalText makes a Status a string in JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Result is the end of one case.
type Result struct {
	Case   *Case
	Status Status
	Reason string // why, but for a pass
	// Log is what went over the connections, in words.
	Log  []string
	Time time.Duration
	// Known is the reason of [Options].Known, also of a case that has passed in spite of it.
	Known string

	reached   bool // it has had a connection
	unreached bool // and it, or what follows it, has not got another one
}

// Report is the end of a run.
type Report struct {
	Results []Result // in the order of [Cases]
	Start   time.Time
	Time    time.Duration
	Options Options
	// Gone says why the run ended early, if the endpoint could not be reached any more; InFlight are the cases that
	// were under way when that was noticed, one of which may have made it go.
	Gone     string
	InFlight []string
	// Kit is the version of the kit, for the reader of the report. Run leaves it empty.
	Kit string
}

// Count returns the number of results with that status.
func (r *Report) Count(s Status) int {
	n := 0
	for i := range r.Results {
		if r.Results[i].Status == s {
			n++
		}
	}
	return n
}

// kit is a run.
type kit struct {
	o       Options
	rev     byte
	rtr     byte // kinds that a Request offers where a case does not care
	connect Connector
	mu      sync.Mutex // of Progress
	watch   watch
}

// ErrNoEndpoint is in the error of [Run] when the endpoint under test cannot be
// reached, or no good connection can be made with it.
var ErrNoEndpoint = errors.New("conform: no good connection to the endpoint under test")

// ErrNoCase is the error of [Run] when the options choose no case: a run of nothing
// must not pass for success.
var ErrNoCase = errors.New("conform: no case is chosen: see Role, Run, Skip and Gentle")

// Run runs the cases that opts choose. It begins with a good connection: without
// one, nothing can be judged. The error is that no case could be run; what is
// wrong with the endpoint is in the Report. The end of ctx closes the connections of
// the cases under way, which are inconclusive then; with Gentle they go on to their end.
func Run(ctx context.Context, connect Connector, opts *Options) (*Report, error) {
	cases, err := Select(opts)
	if err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, ErrNoCase
	}
	k, err := newKit(ctx, connect, opts)
	if err != nil {
		return nil, err
	}
	r := &Report{Results: make([]Result, len(cases)), Start: time.Now(), Options: k.o}
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(k.o.Parallel, max(len(cases), 1)) {
		wg.Go(func() {
			for i := range next {
				r.Results[i] = *k.step(ctx, cases[i])
			}
		})
	}
	for _, i := range slowFirst(cases) {
		next <- i
	}
	close(next)
	wg.Wait()
	r.Time = time.Since(r.Start)
	r.Gone, r.InFlight = k.watch.gone, k.watch.inFlight
	return r, ctx.Err()
}

// slowFirst returns an order in which cases that wait for timeouts start early.
func slowFirst(cases []*Case) []int {
	order := make([]int, len(cases))
	for i := range order {
		order[i] = i
	}
	slow := func(i int) int {
		if slices.ContainsFunc(cases[i].Legal, func(a Answer) bool { return a.section == patienceSection }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(order, func(a, b int) int { return slow(a) - slow(b) })
	return order
}

func newKit(ctx context.Context, connect Connector, opts *Options) (*kit, error) {
	k := &kit{o: opts.orDefault(), connect: connect}
	k.rev, k.rtr = byte(k.o.Revision), rtrWrite|rtrRead
	good := &Case{ID: "good connection", Roles: Either}
	res := k.try(ctx, good, func(s *session) { s.good() })
	if res.Status == Pass {
		return k, nil
	}
	if k.o.Role == Initiator && k.rev == 2 && res.Status == NotApplicable {
		k.rtr |= rtrSend // the peer may want that one
		if r := k.try(ctx, good, func(s *session) { s.good() }); r.Status == Pass {
			return k, nil
		}
	}
	if k.o.Role == Initiator && k.rev == 2 { // RFC 6581 section 10
		k.rev = 1
		if r := k.try(ctx, good, func(s *session) { s.good() }); r.Status == Pass {
			return k, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoEndpoint, res.Reason)
}

// run runs one case.
func (k *kit) run(ctx context.Context, c *Case) *Result {
	if c.Needs == Target && k.o.ULP != Target || c.Needs == Rping &&
		(k.o.ULP == Raw || k.o.ULP == Rping && k.o.Role == Responder) {
		return k.done(&Result{
			Case: c, Status: NotApplicable,
			Reason: fmt.Sprintf("needs the program %v above the endpoint, there is %v", c.Needs, k.o.ULP),
		},
			nil)
	}
	var done func(*Result)
	var wrap func(net.Conn) net.Conn
	if k.o.Record != nil {
		wrap, done = k.o.Record(c)
	}
	res := k.tryWrapped(ctx, c, wrap, func(s *session) {
		c.run(s)
		s.afterwards()
	})
	k.judge(ctx, res)
	return k.done(res, done)
}

func (k *kit) done(res *Result, done func(*Result)) *Result {
	res.Known = k.o.Known[res.Case.ID]
	if res.Status == Fail && res.Known != "" {
		res.Status = KnownFailure
	}
	if done != nil {
		done(res)
	}
	if k.o.Progress != nil {
		k.mu.Lock()
		k.o.Progress(res)
		k.mu.Unlock()
	}
	return res
}

func (k *kit) try(ctx context.Context, c *Case, f func(*session)) *Result {
	return k.tryWrapped(ctx, c, nil, f)
}

// runEnded is why a case that the end of the run has cut short is inconclusive.
const runEnded = "the run was ended"

func (k *kit) tryWrapped(ctx context.Context, c *Case, wrap func(net.Conn) net.Conn, f func(*session)) (res *Result) {
	s := &session{ctx: ctx, k: k, c: c, wrap: wrap}
	start := time.Now()
	res = &Result{Case: c}
	defer func() {
		if v := recover(); v != nil {
			st, is := v.(stop)
			if !is {
				panic(v)
			}
			res.Status, res.Reason = st.status, st.reason
		}
		if ctx.Err() != nil { // what the case saw then may be its own end
			res.Status, res.Reason = Inconclusive, runEnded
		}
		s.close()
		res.Log, res.Time = s.log, time.Since(start)
		res.reached, res.unreached = s.p != nil, s.unreached
	}()
	f(s)
	return res
}

// noConnection is what a case is that gets no connection.
func (k *kit) noConnection() Status {
	if k.o.Role == Responder {
		return Inconclusive
	}
	return Fail
}

// good is a good connection: startup, something that goes there and back, FIN.
func (s *session) good() {
	s.open()
	if s.k.o.ULP == Target {
		s.awaitAdvert()
		s.echo([]byte("a good connection"))
	}
	if s.maxReads > 0 {
		s.works("a good connection")
	}
}

// afterwards is what follows a hostile case: a fresh connection must work, and
// the peer's memory must be as it was.
func (s *session) afterwards() {
	if s.c.Level == Good {
		return
	}
	old := s.advert
	s.close()
	fresh := &session{ctx: s.ctx, k: s.k, c: s.c, wrap: s.wrap}
	defer func() {
		fresh.close()
		s.unreached = fresh.unreached
		s.log = append(append(s.log, "-- a fresh connection"), fresh.log...)
		if v := recover(); v != nil {
			if st, is := v.(stop); is {
				st.reason = "afterwards: " + st.reason
				s.unreached = true
				v = st
			}
			panic(v)
		}
	}()
	fresh.good()
	if old != nil && !s.placed {
		fresh.untouched(old)
	}
}

// untouched asks the target for the memory of a connection that has ended.
func (s *session) untouched(old *advert.Advert) {
	got := s.command('K', u64(old.ID))
	for ; len(got) >= 5; got = got[5:] {
		kind := got[0]
		if kind == 0 || kind >= advert.Kinds {
			continue
		}
		r := old.Regions[kind]
		if want := u32(advert.Checksum(content(kind, r.Size))); string(got[1:5]) != string(want) {
			s.fail("memory of the region of kind %d has changed, or octets beside it (RFC 5041 section 7.1)", kind)
		}
	}
}

// Accept makes a Connector of a listener, for the role of Responder. The
// connections of clients that have waited for long are dropped, since they may
// have given up. The listener is the caller's to close, which ends the Connector.
func Accept(ln net.Listener) Connector {
	type arrival struct {
		nc net.Conn
		at time.Time
	}
	const waiting, stale = 256, time.Second
	arrivals := make(chan arrival, waiting)
	go func() {
		defer close(arrivals)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case arrivals <- arrival{nc, time.Now()}:
			default:
				_ = nc.Close()
			}
		}
	}()
	return func(ctx context.Context) (net.Conn, error) {
		for {
			select {
			case a, ok := <-arrivals:
				if !ok {
					return nil, net.ErrClosed
				}
				if time.Since(a.at) < stale {
					return a.nc, nil
				}
				_ = a.nc.Close()
			case <-ctx.Done():
				return nil, fmt.Errorf("no client has connected: %w", context.Cause(ctx))
			}
		}
	}
}

// Dial makes a Connector of a TCP address, for the role of Initiator.
func Dial(network, address string) Connector {
	var d net.Dialer
	return func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, network, address) }
}
