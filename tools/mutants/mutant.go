package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/tools/internal/claims"
)

// A mutant breaks one rule.
type mutant struct {
	name     string
	ids      string // requirement ids, comma separated
	breaks   string // what it breaks, in words, of a mutant without ids
	in       string // the declaration, or several of one file, comma separated: see anchor.go
	old, new string // the tokens of old are in each exactly once; new takes their place
	// tests are more tests to run, "folder Name" each: for rules whose ids are shown
	// by tests of another package than the one that the mutant is in.
	tests []string

	index   int
	file    string // that the declaration is in, from the root
	rule    string // of the first id, in words
	mutated []byte
	byPkg   map[string][]string // tests to run, by folder
	killers []string            // tests that failed
	missed  []string            // with -all: claims that did not notice
	trouble error               // neither noticed nor not
	took    time.Duration
	cases   int // of the kit that fail: see kit.go
}

func (m *mutant) killed() bool { return m.trouble == nil && len(m.killers) > 0 }

func (m *mutant) line() string {
	took := m.took.Round(time.Second)
	switch {
	case m.trouble != nil:
		return fmt.Sprintf("TROUBLE   %s (%v): %v", m.name, took, m.trouble)
	case len(m.killers) == 0:
		return fmt.Sprintf("SURVIVED  %s (%v): %s of %s, by %v", m.name, took, m.ids, m.in, m.byPkg)
	}
	s := fmt.Sprintf("noticed   %s (%v): %s", m.name, took, m.killers[0])
	if len(m.missed) > 0 {
		s += "; not by " + strings.Join(m.missed, ", ")
	}
	return s
}

// table returns all mutants of the RFCs' rules, for the kit with those of its own,
// otherwise with those of what the library promises beyond.
func table(kit bool) []*mutant {
	all := slices.Concat(mpaMutants, startupMutants, ddpMutants, rdmapMutants, programMutants)
	if kit {
		all = append(all, kitMutants...)
	} else {
		all = append(all, libraryMutants...)
	}
	var pointers []*mutant
	for i := range all {
		all[i].index = i
		pointers = append(pointers, &all[i])
	}
	return pointers
}

// prepare finds each mutant's tests and its changed file. The error names all
// mutants that do not apply.
func prepare(root string, all []*mutant, rules map[string]string, found []claims.Claim) error {
	byID := make(map[string][]claims.Claim)
	for _, c := range found {
		byID[c.ID] = append(byID[c.ID], c)
	}
	seen := make(map[string]bool)
	code := newSources(root)
	var errs []error
	for _, m := range all {
		if seen[m.name] {
			errs = append(errs, fmt.Errorf("two mutants are named %s", m.name))
		}
		seen[m.name] = true
		m.findTests(root, byID)
		m.rule = m.breaks
		if (m.ids == "") == (m.breaks == "") {
			errs = append(errs, fmt.Errorf("%s: want ids, or what it breaks", m.name))
			continue
		}
		for id := range splitIDs(m.ids) {
			if rules[id] == "" {
				errs = append(errs, fmt.Errorf("%s: no requirement %q", m.name, id))
			}
			if m.rule == "" {
				m.rule = rules[id]
			}
		}
		if len(m.byPkg) == 0 {
			errs = append(errs, fmt.Errorf("%s: no test claims any of %s", m.name, m.ids))
		}
		if err := m.apply(code); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", m.name, m.in, err))
		}
	}
	return errors.Join(errs...)
}

// apply changes the file that the mutant's declaration is in, to something that is
// still Go.
func (m *mutant) apply(code *sources) (err error) {
	if m.file, m.mutated, err = code.replace(m.in, m.old, m.new); err != nil {
		return err
	}
	_, err = parser.ParseFile(token.NewFileSet(), m.file, m.mutated, parser.SkipObjectResolution)
	return err
}

// nested reports whether a package is of another module, in a folder of its own: its
// tests do not run here.
func nested(root, pkg string) bool {
	for dir := pkg; dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir), "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// splitIDs are the ids of a list, none of an empty one.
func splitIDs(list string) iter.Seq[string] {
	return strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func (m *mutant) findTests(root string, byID map[string][]claims.Claim) {
	m.byPkg = make(map[string][]string)
	add := func(pkg, test string) {
		if !slices.Contains(m.byPkg[pkg], test) {
			m.byPkg[pkg] = append(m.byPkg[pkg], test)
		}
	}
	for id := range splitIDs(m.ids) {
		for _, c := range byID[id] {
			if !nested(root, c.Pkg) {
				add(c.Pkg, c.Test)
			}
		}
	}
	for _, t := range m.tests {
		pkg, test, _ := strings.Cut(t, " ")
		add(pkg, test)
	}
}

// packages returns the folders with tests, that of the mutant first and the root,
// which takes longest, last.
func (m *mutant) packages() []string {
	own := path.Dir(m.file)
	rank := func(p string) int {
		switch p {
		case own:
			return 0
		case ".":
			return 2
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(m.byPkg), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// overlay writes the mutant's overlay file into dir and gives its name.
func (m *mutant) overlay(root, dir string) (string, error) {
	changed := filepath.Join(dir, fmt.Sprintf("%d.go", m.index))
	name := filepath.Join(dir, fmt.Sprintf("%d.json", m.index))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): changed}})
	if err != nil {
		return "", err
	}
	return name, errors.Join(os.WriteFile(changed, m.mutated, 0o600), os.WriteFile(name, replace, 0o600))
}

// run builds the mutant and runs its tests until some fail.
func (m *mutant) run(ctx context.Context, o *options, dir string) {
	start := time.Now()
	defer func() { m.took = time.Since(start) }()
	overlay, err := m.overlay(o.root, dir)
	if err != nil {
		m.trouble = err
		return
	}
	for _, pkg := range m.packages() {
		results, err := test(ctx, o, pkg, m.byPkg[pkg], "-overlay="+overlay)
		if err != nil {
			m.trouble = err
			return
		}
		for _, name := range m.byPkg[pkg] {
			switch results[name] {
			case "fail":
				m.killers = append(m.killers, claims.Claim{Pkg: pkg, Test: name}.Name())
			case "pass", "":
				if o.all {
					m.missed = append(m.missed, claims.Claim{Pkg: pkg, Test: name}.Name())
				}
			}
		}
		if len(m.killers) > 0 && !o.all {
			return
		}
	}
}

// baseline runs all tests that the mutants need, without a mutant. Those of a
// package that this machine must skip are skipped here too.
func baseline(ctx context.Context, o *options, mutants []*mutant) error {
	union := make(map[string]map[string]bool)
	for _, m := range mutants {
		for pkg, tests := range m.byPkg {
			for _, t := range tests {
				if union[pkg] == nil {
					union[pkg] = make(map[string]bool)
				}
				union[pkg][t] = true
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(union)) {
		names := slices.Sorted(maps.Keys(union[pkg]))
		results, err := test(ctx, o, pkg, names)
		if err != nil {
			return err
		}
		for _, name := range names {
			switch results[name] {
			case "pass", "skip":
			default:
				return fmt.Errorf("%s does not pass without a mutant: %q", claims.Claim{Pkg: pkg, Test: name}.Name(),
					results[name])
			}
		}
	}
	return nil
}

// test runs tests of a package and gives the outcome of each: pass, fail or skip.
// A run that ends before a test's turn, with a panic, leaves that one out. The
// error is for what does not build or run at all.
func test(ctx context.Context, o *options, pkg string, names []string, flags ...string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout+5*time.Minute) // to build, on a busy machine
	defer cancel()
	args := slices.Concat([]string{"test", "-json", "-vet=off", "-count=1", "-timeout=" + o.timeout.String()}, flags,
		[]string{"-run", "^(" + strings.Join(names, "|") + ")$", "./" + pkg})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.root
	// A mutant may allocate without end; better it dies than the machine.
	cmd.Env = append(os.Environ(), "GOMEMLIMIT=2GiB")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	results := make(map[string]string)
	var started []string
	var text strings.Builder
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		switch event.Action {
		case "pass", "fail", "skip":
			if event.Test != "" && !strings.Contains(event.Test, "/") {
				results[event.Test] = event.Action
			}
		case "run":
			if !strings.Contains(event.Test, "/") {
				started = append(started, event.Test)
			}
		case "output", "build-output":
			text.WriteString(event.Output)
		}
	}
	if err != nil && !slices.Contains(slices.Collect(maps.Values(results)), "fail") {
		if strings.Contains(text.String(), "[build failed]") || len(started) == 0 {
			return nil, fmt.Errorf("%s: does not build or run:\n%s%s", pkg, text.String(), stderr.String())
		}
		// A panic outside the test's goroutine has no event of its own, nor has a
		// leak that TestMain finds: the last one started is as good as any.
		results[started[len(started)-1]] = "fail"
	}
	return results, lines.Err()
}
