package kit_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/target"
)

// serveTarget makes a target that responds at the address it gives.
func serveTarget(t *testing.T, cfg *iwarp.Config) string {
	t.Helper()
	tg, err := target.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tg.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// connectTarget makes a target that connects again and again to the Connector
// that it gives.
func connectTarget(t *testing.T, cfg *iwarp.Config) kit.Connector {
	t.Helper()
	tg, err := target.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tg.Connect(ctx, kit.Dial("tcp", ln.Addr().String()), 8)
	}()
	t.Cleanup(func() {
		cancel()
		_ = ln.Close()
		<-done
	})
	return kit.Accept(ln)
}

// patience is long, for a machine that is busy with other things. It costs nothing
// where all goes well.
const patience = 30 * time.Second

// config is how a target of a variant is set up.
func config(mod func(*iwarp.Config)) *iwarp.Config {
	cfg := &iwarp.Config{
		StartupTimeout: patience, CloseTimeout: patience,
		MPA: iwarp.MPAConfig{RTR: iwarp.RTRSend | iwarp.RTRWrite | iwarp.RTRRead},
	}
	if mod != nil {
		mod(cfg)
	}
	return cfg
}

// summarize logs a report, and fails the test if too few cases ran.
func summarize(t *testing.T, r *kit.Report, cfg *iwarp.Config, least int) {
	t.Helper()
	reasons := map[string]int{}
	for _, res := range r.Results {
		if res.Status == kit.NotApplicable || res.Status == kit.Inconclusive {
			reasons[res.Status.String()+": "+res.Reason]++
		}
	}
	t.Logf("%d passed, %d failed, %d not applicable, %d inconclusive, in %v", r.Count(kit.Pass), r.Count(kit.Fail),
		r.Count(kit.NotApplicable), r.Count(kit.Inconclusive), r.Time.Round(time.Millisecond))
	for reason, n := range reasons {
		t.Logf("%4d %s", n, reason)
	}
	for _, res := range r.Results {
		// What serves no Reads, without having said so, cannot be judged by one.
		silent := cfg.IRD < 0 && strings.Contains(res.Reason, "the depth is the programs' to agree on")
		if res.Status == kit.Inconclusive && !silent {
			t.Errorf("%s is inconclusive: %s", res.Case.ID, res.Reason)
		}
	}
	if n := r.Count(kit.Pass); n < least {
		t.Errorf("%d cases passed, %d at least should", n, least)
	}
}

// knownBugs are cases that our own endpoint fails, and why. An entry that passes
// is an error: the bug has been mended, and the entry must go.
var knownBugs = map[string]string{}

// variants are the ways to set up an endpoint, and the kit.
var variants = []struct {
	name string
	cfg  func(*iwarp.Config)
	opts func(*kit.Options)
}{
	{name: "default"},
	{
		name: "markers", cfg: func(c *iwarp.Config) { c.MPA.Markers = true },
		opts: func(o *kit.Options) { o.Markers = true },
	},
	{name: "no-crc", cfg: withoutCRC, opts: func(o *kit.Options) { o.NoCRC = true }},
	{name: "rev-1", cfg: func(c *iwarp.Config) { c.MPA.Revision = 1 }, opts: func(o *kit.Options) { o.Revision = 1 }},
	{name: "client-server", cfg: func(c *iwarp.Config) { c.MPA.RTR = iwarp.RTRNone }},
	{name: "rtr-read", cfg: func(c *iwarp.Config) { c.MPA.RTR = iwarp.RTRRead }},
	{name: "rtr-read-depth-1", cfg: func(c *iwarp.Config) { c.MPA.RTR, c.IRD, c.ORD = iwarp.RTRRead, 1, 1 }},
	{name: "rtr-read-send", cfg: func(c *iwarp.Config) { c.MPA.RTR = iwarp.RTRRead | iwarp.RTRSend }},
	{name: "rtr-send", cfg: func(c *iwarp.Config) { c.MPA.RTR = iwarp.RTRSend }},
	{name: "depth-1", cfg: func(c *iwarp.Config) { c.IRD, c.ORD = 1, 1 }},
	{name: "no-reads", cfg: func(c *iwarp.Config) { c.IRD, c.ORD = -1, -1 }},
	{
		name: "markers-no-crc-rev-1",
		cfg:  func(c *iwarp.Config) { c.MPA.Markers, c.MPA.Revision = true, 1; withoutCRC(c) },
		opts: func(o *kit.Options) { o.Markers, o.NoCRC, o.Revision = true, true, 1 },
	},
}

func withoutCRC(c *iwarp.Config) {
	dev, err := iwarp.NewDevice(&iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{Protection: "none: a test"}})
	if err != nil {
		panic(err)
	}
	c.Device = dev
}

// Our own endpoint passes wholly, in both roles and all variants.
// Shows: RDMAP-7.2-02, RDMAP-7.2-03, DDP-7.2-01, MPA-7.1.2-05, MPA-7.1.2-11
func TestOwnEndpoint(t *testing.T) {
	for _, v := range variants {
		if (testing.Short() || raceEnabled) && v.name != "default" {
			continue // the race detector takes its time, and has seen all code paths of the kit then
		}
		for _, role := range []kit.Role{kit.Initiator, kit.Responder} {
			t.Run(v.name+"/"+role.String(), func(t *testing.T) {
				opts := &kit.Options{Role: role, ULP: kit.Target, Timeout: patience, Patience: patience, Skip: waits}
				if v.opts != nil {
					v.opts(opts)
				}
				own(t, opts, config(v.cfg), 300)
			})
		}
	}
}

// waits are the cases that wait for the endpoint to give a startup up.
const waits = "silence-after|trickle"

// The endpoint gives up startups that are never finished.
// Shows: MPA-7.1.2-20, MPA-7.1.2-25
func TestOwnEndpointGivesUp(t *testing.T) {
	for _, role := range []kit.Role{kit.Initiator, kit.Responder} {
		cfg := config(nil)
		cfg.StartupTimeout = 2 * time.Second
		own(t, &kit.Options{Role: role, ULP: kit.Target, Timeout: patience, Patience: patience, Run: waits}, cfg, 3)
	}
}

// own runs cases against our endpoint, of which so many at least must pass.
func own(t *testing.T, opts *kit.Options, cfg *iwarp.Config, least int) {
	t.Helper()
	connect := kit.Connector(nil)
	if opts.Role == kit.Initiator {
		connect = kit.Dial("tcp", serveTarget(t, cfg))
	} else {
		connect = connectTarget(t, cfg)
	}
	r, err := kit.Run(t.Context(), connect, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range r.Results {
		why, known := knownBugs[res.Case.ID]
		switch {
		case known && res.Status == kit.Pass:
			t.Errorf("%s passes: take it out of knownBugs (%s)", res.Case.ID, why)
		case !known && res.Status == kit.Fail:
			t.Errorf("%s: %s\n%s", res.Case.ID, res.Reason, strings.Join(res.Log, "\n"))
		}
	}
	summarize(t, r, cfg, least)
}
