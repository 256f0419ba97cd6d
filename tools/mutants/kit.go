package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// With -conform the judge is "iwarp conform" in place of the tests: the mutant is
// the endpoint under test, and each case that fails against it has shown that it
// can fail.

// A setting is a way to set the target up. In each the kit plays one role.
type setting struct {
	name     string
	serve    bool     // the kit is the responder
	all      bool     // cases that pass in an earlier setting run here too
	kit, end []string // flags of the kit and of the target
}

// settings are tried in turn. A case runs in the first in which it passes against
// the endpoint as it is, once for each role, and in those for all that pass.
var settings = []setting{
	{name: "initiator"},
	{name: "responder", serve: true},
	{name: "initiator, client-server", end: []string{"--rtr", "none"}},
	{name: "responder, client-server", serve: true, end: []string{"--rtr", "none"}},
	{name: "initiator, Markers", all: true, end: []string{"--markers"}},
	{name: "responder, Markers", serve: true, all: true, end: []string{"--markers"}},
	{
		name: "responder, Markers both ways", serve: true, all: true, kit: []string{"--markers"},
		end: []string{"--markers"},
	},
	{name: "initiator, no CRC", kit: []string{"--crc", "off"}, end: []string{"--crc", "off"}},
	{name: "responder, no CRC", serve: true, kit: []string{"--crc", "off"}, end: []string{"--crc", "off"}},
	{name: "responder, revision 1", serve: true, kit: []string{"--rev", "1"}, end: []string{"--rev", "1"}},
}

// A kitCase is a case of the kit, and what is known of it.
type kitCase struct {
	id, role string // the case and the kit's role in it
	rules    []string
	rule     string
	settings []int
	caught   []*mutant // those against which it fails
}

func (c *kitCase) name() string { return c.id + " (" + c.role + ")" }

// own tells whether the mutant breaks a rule that the case names.
func (c *kitCase) own(m *mutant) bool {
	return slices.ContainsFunc(c.rules, func(r string) bool { return slices.Contains(strings.Split(m.ids, ", "), r) })
}

// role is the kit's.
func (s *setting) role() string {
	if s.serve {
		return "responder"
	}
	return "initiator"
}

// kitResult is what the kit says of a case.
type kitResult struct {
	Status, Reason, Rule string
	Rules                []string
}

// proof is a run of all mutants against the kit.
type proof struct {
	o     *options
	dir   string
	kit   string // the tool without a mutant
	cases []*kitCase
	mu    sync.Mutex
}

// runKit is -conform: it gives the number of cases that no mutant makes fail.
func runKit(ctx context.Context, o *options, mutants []*mutant) (open int, err error) {
	start := time.Now()
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	p := &proof{o: o, dir: dir, kit: filepath.Join(dir, "iwarp")}
	if err := p.build(ctx, p.kit); err != nil {
		return 0, err
	}
	if err := p.baseline(ctx); err != nil {
		return 0, err
	}
	fmt.Printf("%d cases, counted once for each role, pass without a mutant (%v)\n", len(p.cases),
		time.Since(start).Round(time.Second))
	each(ctx, o.parallel, mutants, func(m *mutant) { p.mutant(ctx, m) })
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	for _, c := range p.cases {
		if len(c.caught) == 0 {
			open++
			fmt.Println("no mutant makes it fail:", c.name())
		}
	}
	for _, m := range mutants {
		if m.trouble != nil {
			return 0, fmt.Errorf("%s: %w", m.name, m.trouble)
		}
	}
	took := time.Since(start).Round(time.Second)
	fmt.Printf("%d mutants, %d cases, %d of which none makes fail, in %v\n", len(mutants), len(p.cases), open, took)
	if o.report != "" {
		return open, writeKitReport(o.report, mutants, p.cases, originOf(o.root, start))
	}
	return open, nil
}

// build builds the tool.
func (p *proof) build(ctx context.Context, out string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go",
		slices.Concat([]string{"build", "-o", out}, flags, []string{"./cmd/iwarp"})...)
	cmd.Dir = p.o.root
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("does not build: %w:\n%s", err, b)
	}
	return nil
}

// baseline runs the kit against the endpoint as it is and finds each case's
// setting.
func (p *proof) baseline(ctx context.Context) error {
	known := make(map[string]*kitCase)
	for i := range settings {
		r, err := p.run(ctx, p.kit, i, "")
		if err != nil {
			return fmt.Errorf("without a mutant: %s: %w", settings[i].name, err)
		}
		for id, res := range r {
			c := &kitCase{id: id, role: settings[i].role(), rules: res.Rules, rule: res.Rule}
			switch before := known[c.name()]; {
			case res.Status == "fail":
				return fmt.Errorf("without a mutant: %s: %s fails: %s", settings[i].name, c.name(), res.Reason)
			case res.Status != "pass":
			case before == nil:
				known[c.name()] = c
				p.cases = append(p.cases, c)
				c.settings = []int{i}
			case settings[i].all:
				before.settings = append(before.settings, i)
			}
		}
	}
	slices.SortFunc(p.cases,
		func(a, b *kitCase) int { return cmp.Or(a.settings[0]-b.settings[0], strings.Compare(a.id, b.id)) })
	return nil
}

// mutant runs all cases against a mutant.
func (p *proof) mutant(ctx context.Context, m *mutant) {
	begin := time.Now()
	overlay, err := m.overlay(p.o.root, p.dir)
	tool := filepath.Join(p.dir, m.name)
	if err == nil {
		err = p.build(ctx, tool, "-overlay="+overlay)
	}
	if err != nil {
		m.trouble = err
		fmt.Printf("TROUBLE   %s: %v\n", m.name, err)
		return
	}
	defer os.Remove(tool)
	var caught, notes []string
	for i := range settings {
		failed, err := p.failing(ctx, m, tool, i)
		if err != nil {
			notes = append(notes, settings[i].name+": "+err.Error())
		}
		for _, c := range failed {
			caught = append(caught, c.name())
		}
		p.mu.Lock()
		for _, c := range failed {
			c.caught = append(c.caught, m)
		}
		p.mu.Unlock()
	}
	m.cases = len(caught)
	fmt.Printf("%4d cases fail against %s (%v): %s\n", len(caught), m.name, time.Since(begin).Round(time.Second),
		strings.Join(append(notes, caught[:min(len(caught), 3)]...), ", "))
}

// failing returns the cases of a setting that fail against the mutant, of which tool
// is the build.
func (p *proof) failing(ctx context.Context, m *mutant, tool string, i int) ([]*kitCase, error) {
	var cases []*kitCase
	p.mu.Lock()
	for _, c := range p.cases {
		if slices.Contains(c.settings, i) && !slices.Contains(c.caught, m) {
			cases = append(cases, c)
		}
	}
	p.mu.Unlock()
	failed, err := p.narrow(ctx, tool, i, cases)
	if err != nil || len(failed) == 0 {
		return nil, err
	}
	return p.narrow(ctx, tool, i, failed) // a busy machine may make one fail once
}

// narrow returns those of the cases that fail. If the endpoint dies, it looks for the
// ones that kill it, and runs fewer at a time if so many take too long.
func (p *proof) narrow(ctx context.Context, tool string, i int, cases []*kitCase) ([]*kitCase, error) {
	if len(cases) == 0 {
		return nil, nil
	}
	var ids []string
	for _, c := range cases {
		ids = append(ids, regexp.QuoteMeta(c.id))
	}
	r, err := p.run(ctx, tool, i, "^("+strings.Join(ids, "|")+")$")
	if err == nil {
		var failed []*kitCase
		for _, c := range cases {
			if r[c.id].Status == "fail" {
				failed = append(failed, c)
			}
		}
		return failed, nil
	}
	switch died := errors.Is(err, errDied); {
	case !died && !errors.Is(err, errSlow):
		return nil, err
	case died && len(cases) == 1:
		return cases, nil
	case len(cases) == 1:
		return nil, nil // it says nothing
	}
	left, err := p.narrow(ctx, tool, i, cases[:len(cases)/2])
	if err != nil {
		return nil, err
	}
	right, err := p.narrow(ctx, tool, i, cases[len(cases)/2:])
	return slices.Concat(left, right), err
}

// A run proves nothing if no good connection is to be had with the endpoint.
// errDied says that the endpoint has died, errSlow that the run was ended.
var (
	errNoKit = errors.New("no good connection")
	errDied  = errors.New("the endpoint died")
	errSlow  = errors.New("the run took too long")
)

// run runs the kit against the endpoint that tool is, and gives what it says of each
// case.
func (p *proof) run(ctx context.Context, tool string, i int, pattern string) (map[string]kitResult, error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.timeout)
	defer cancel()
	s := settings[i]
	kitArgs := slices.Concat([]string{
		"conform", "--json", "--ulp", "target", "--timeout", "3s", "--patience", "10s", "--wait", "5s", "--parallel",
		"24",
	},
		s.kit)
	if pattern != "" {
		kitArgs = append(kitArgs, "--run", pattern)
	}
	endArgs := slices.Concat([]string{"conform", "--json"}, s.end)
	var kit, end *process
	var err error
	if s.serve {
		if kit, err = listener(ctx, p.kit, append(kitArgs, "--serve", "127.0.0.1:0")...); err != nil {
			return nil, err
		}
		defer kit.stop()
		if end, err = start(ctx, tool,
			append(endArgs, "--parallel", "24", "--target-dial", kit.address)...); err != nil {
			return nil, err
		}
		defer end.stop()
	} else {
		if end, err = listener(ctx, tool, append(endArgs, "--target", "127.0.0.1:0")...); err != nil {
			return nil, err
		}
		defer end.stop()
		if kit, err = start(ctx, p.kit, append(kitArgs, end.address)...); err != nil {
			return nil, err
		}
		defer kit.stop()
	}
	go io.Copy(io.Discard, end.out) //nolint:errcheck // until the process ends
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-end.done:
			_ = kit.cmd.Process.Kill() // nothing is left to be judged
		case <-over:
		}
	}()
	r := readKit(kit.out)
	if ctx.Err() != nil { // which has killed both
		return nil, errSlow
	}
	select {
	case <-end.done:
		return nil, errDied
	default:
	}
	if len(r) == 0 {
		return nil, errNoKit
	}
	return r, nil
}

// readKit reads what the kit prints.
func readKit(out io.Reader) map[string]kitResult {
	r := make(map[string]kitResult)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e struct {
			Event, ID string
			kitResult
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			break // killed within a line
		}
		if e.Event == "result" {
			r[e.ID] = e.kitResult
		}
	}
	return r // however the output ends: results that are there are results
}

// process is one that runs.
type process struct {
	cmd     *exec.Cmd
	pipe    *os.File
	out     *bufio.Reader
	address string // where it listens
	done    chan struct{}
}

func start(ctx context.Context, tool string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=2GiB")
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	p := &process{cmd: cmd, pipe: r, out: bufio.NewReader(r), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // killed mostly
	}()
	return p, nil
}

// listener starts one that tells its address first.
func listener(ctx context.Context, tool string, args ...string) (*process, error) {
	p, err := start(ctx, tool, args...)
	if err != nil {
		return nil, err
	}
	line, err := p.out.ReadBytes('\n')
	var e struct{ Address string }
	if err = errors.Join(err, json.Unmarshal(bytes.TrimSpace(line), &e)); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s %s: %w", tool, strings.Join(args, " "), err)
	}
	p.address = e.Address
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	_ = p.pipe.Close() // which ends its readers
}
