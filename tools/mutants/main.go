// Mutants shows that the tests can fail: it breaks one rule of the engines at a
// time and expects the tests that claim the rule to notice.
//
// A mutant (mutants_*.go) is data: requirement ids of docs/requirements.tsv, a
// declaration (mpa.Conn.Flush, iwarp.Dial: the root is iwarp), and a piece of it with
// what to put in its place. The piece is found by its tokens, which must be there
// exactly once: white space, comments, semicolons and other code do not matter, nor
// does the file. It is built with `go test -overlay`, so the engines have no hooks
// and no file of theirs is touched. The tests that run are those that name one of
// its ids in a Shows line (and the mutant's own, if it names any).
//
// Usage:
//
//	mutants [-n 20 [-seed S]] [-run PATTERN] [-p 2] [-list] [-all] [-report FILE]
//	mutants -conform [-n 20 [-seed S]] [-run PATTERN] [-p 2] [-report FILE]
//
// It first runs the tests without a mutant, which must pass, and then each mutant.
// Exit code 1 if one survives or does not apply any more. -n takes that many at
// random, by the seed that it prints. -all goes on after the first package that
// notices and lists the claims that did not. -report writes a table of all mutants
// as Markdown.
//
// With -conform the mutants are the endpoint that "iwarp conform" tests, in both
// roles, and what is looked for are the kit's cases that can fail: exit code 1 if
// there is one that no mutant makes fail. The report lists them all.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-iwarp/iwarp/tools/internal/claims"
)

func main() {
	var o options
	flag.IntVar(&o.n, "n", 0, "how many mutants to pick at random; 0: all")
	flag.Uint64Var(&o.seed, "seed", 0, "of the picking; 0: a new one")
	pattern := flag.String("run", "",
		"only the mutants of which the name, the ids or what they break matches the `pattern`")
	flag.IntVar(&o.parallel, "p", 2, "mutants at a time")
	flag.DurationVar(&o.timeout, "timeout", time.Minute,
		"for the tests of one package; a mutant that hangs them is noticed")
	flag.BoolVar(&o.kit, "conform", false, "let iwarp conform judge, not the tests")
	list := flag.Bool("list", false, "list the mutants and do not run them")
	flag.BoolVar(&o.all, "all", false, "run every claim, and list those that do not notice")
	flag.StringVar(&o.report, "report", "", "write a table to the `file`")
	flag.StringVar(&o.root, "root", ".", "the module's `folder`")
	flag.Parse()
	re, err := regexp.Compile(*pattern)
	if err != nil {
		fatal(err)
	}
	o.pattern = re
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	mutants, err := load(&o)
	if err != nil {
		fatal(err)
	}
	if *list {
		for _, m := range mutants {
			fmt.Printf("%-34s %-34s %s\n", m.name, m.in, m.ids)
		}
		fmt.Println(len(mutants), "mutants")
		return
	}
	judge := run
	if o.kit {
		judge = runKit
	}
	bad, err := judge(ctx, &o, mutants)
	if err != nil {
		fatal(err)
	}
	if bad > 0 {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	os.Exit(2)
}

type options struct {
	root     string
	n        int
	seed     uint64
	pattern  *regexp.Regexp
	parallel int
	timeout  time.Duration
	all      bool
	kit      bool
	report   string
}

// load returns the chosen mutants, with their tests, and makes sure that each
// that could be chosen applies.
func load(o *options) ([]*mutant, error) {
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return nil, err
	}
	found, err := claims.Find(o.root)
	if err != nil {
		return nil, err
	}
	known, err := claims.Rules(o.root)
	if err != nil {
		return nil, err
	}
	rules := make(map[string]string, len(known))
	for _, r := range known {
		rules[r.ID] = r.Text
	}
	var picked []*mutant
	for _, m := range table(o.kit) {
		if slices.ContainsFunc([]string{m.name, m.ids, m.breaks}, o.pattern.MatchString) {
			picked = append(picked, m)
		}
	}
	if err := prepare(o.root, picked, rules, found); err != nil {
		return nil, err
	}
	if o.n > 0 && o.n < len(picked) {
		if o.seed == 0 {
			o.seed = rand.Uint64()
		}
		fmt.Printf("seed %d: %d of %d mutants\n", o.seed, o.n, len(picked))
		r := rand.New(rand.NewPCG(o.seed, 0))
		r.Shuffle(len(picked), func(i, j int) { picked[i], picked[j] = picked[j], picked[i] })
		picked = picked[:o.n]
	}
	return picked, nil
}

// run runs the mutants and tells how many were not noticed.
func run(ctx context.Context, o *options, mutants []*mutant) (bad int, err error) {
	start := time.Now()
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := baseline(ctx, o, mutants); err != nil {
		return 0, err
	}
	fmt.Printf("the tests pass without a mutant (%v)\n", time.Since(start).Round(time.Second))
	var mu sync.Mutex
	each(ctx, o.parallel, mutants, func(m *mutant) {
		m.run(ctx, o, dir)
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(m.line())
		if !m.killed() {
			bad++
		}
	})
	if ctx.Err() != nil {
		return bad, ctx.Err()
	}
	took := time.Since(start).Round(time.Second)
	fmt.Printf("%d mutants, %d noticed, %d not, in %v\n", len(mutants), len(mutants)-bad, bad, took)
	if o.report != "" {
		slices.SortFunc(mutants, func(a, b *mutant) int { return a.index - b.index })
		return bad, writeReport(o.report, mutants, originOf(o.root, start))
	}
	return bad, nil
}

// each calls f for the mutants, some at a time, until ctx ends.
func each(ctx context.Context, parallel int, mutants []*mutant, f func(*mutant)) {
	var wg sync.WaitGroup
	next := make(chan *mutant)
	for range max(1, parallel) {
		wg.Go(func() {
			for m := range next {
				if ctx.Err() == nil {
					f(m)
				}
			}
		})
	}
	for _, m := range mutants {
		next <- m
	}
	close(next)
	wg.Wait()
}
