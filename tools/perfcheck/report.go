package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/internal/svgplot"
)

// checker is one run.
type checker struct {
	samples  int
	duration time.Duration
	rows     *regexp.Regexp
	list     bool // the names of the rows are printed, and nothing is measured

	dir        string // of what is built
	machine    string
	processors int // of machine
	report     bytes.Buffer
	heading    string // of the section that is not written yet
	plots      []svgplot.Figure
	gates      []string // lines of the table
	missed     int
	pairs      pairs
	plains     map[string]*plainServer // by place
}

// section is a part of the report.
type section struct {
	title string
	run   func(*checker, context.Context) error
}

var sections = []section{
	{title: "Loopback", run: (*checker).loopback},
	{title: "Every size", run: (*checker).ladders},
	{title: "On a network", run: (*checker).networkRows},
	{title: "Latency", run: (*checker).latencies},
	{title: "Other stacks", run: (*checker).peers},
	{title: "Long fat paths", run: (*checker).longPaths},
	{title: "Many connections", run: (*checker).many},
	{title: "Idle connections", run: (*checker).idle},
}

// run measures what was asked for, and writes the report if out says where to. It reports whether every gate is met.
func (c *checker) run(ctx context.Context, out string) (ok bool, err error) {
	if c.dir, err = os.MkdirTemp("", "perfcheck"); err != nil {
		return false, err
	}
	defer os.RemoveAll(c.dir)
	defer c.pairs.close()
	c.plains = map[string]*plainServer{}
	defer c.stopPlain()
	if !c.list {
		if b, err := exec.CommandContext(ctx, "go", "build", "-o", c.iwarp(),
			"./cmd/iwarp").CombinedOutput(); err != nil {
			return false, fmt.Errorf("building iwarp: %w\n%s", err, b)
		}
		c.line("# Performance, measured on %s", time.Now().Format(time.DateOnly))
		c.line("")
		c.line("By `go run ./tools/perfcheck`, medians of %d rounds of %v, each beside its baseline. Load average at "+
			"the start: %s.",
			c.samples, c.duration, loadAverage())
	}
	for _, s := range sections {
		c.heading = s.title
		if err := s.run(c, ctx); err != nil {
			return false, fmt.Errorf("%s: %w", s.title, err)
		}
	}
	if c.list {
		return true, nil
	}
	if c.heading = "Gates"; len(c.gates) > 0 {
		c.table("what", "measured", "min..max of the rounds", "gate", "aim", "")
		for _, g := range c.gates {
			c.line("%s", g)
		}
	}
	c.line("")
	c.line("Machine: %s. Load average at the end: %s.", c.machine, loadAverage())
	if out != "" {
		if err := c.write(out); err != nil {
			return false, err
		}
		fmt.Printf("\nwritten to %s\n", out)
	}
	fmt.Printf("%d gates missed\n", c.missed)
	return c.missed == 0, ctx.Err()
}

// write writes the report and the plots.
func (c *checker) write(out string) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if len(c.plots) > 0 {
		svg := strings.TrimSuffix(out, ".md") + ".svg"
		if err := os.WriteFile(svg, svgplot.Page(c.plots...), 0o644); err != nil {
			return err
		}
		c.line("")
		c.line("![Every size](%s)", filepath.Base(svg))
	}
	return os.WriteFile(out, c.report.Bytes(), 0o644)
}

func (c *checker) iwarp() string { return filepath.Join(c.dir, "iwarp") }

// wants reports whether a row is to be measured. With -list it prints the row's name, and none is.
func (c *checker) wants(name string) bool {
	if !c.rows.MatchString(name) {
		return false
	}
	if c.list {
		fmt.Println(name)
		return false
	}
	return true
}

// line writes a line of the report, which is shown too.
func (c *checker) line(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	fmt.Println(s)
	c.report.WriteString(s + "\n")
}

// table begins a table, below the section's heading if that is not written yet.
func (c *checker) table(columns ...string) {
	if c.heading != "" {
		c.line("")
		c.line("## %s", c.heading)
		c.heading = ""
	}
	c.line("")
	c.cells(columns...)
	c.line("|%s", strings.Repeat(" --- |", len(columns)))
}

// cells writes a row of a table.
func (c *checker) cells(columns ...string) { c.line("| %s |", strings.Join(columns, " | ")) }

// skip says why something was not measured.
func (c *checker) skip(name string, why error) { c.remark(name, "skipped", why) }

// fail says why something could not be measured that should have been. It counts as a missed gate.
func (c *checker) fail(name string, why error) {
	c.missed++
	c.remark(name, "**failed**", why)
}

func (c *checker) remark(name, verdict string, why error) {
	if c.heading != "" {
		c.line("")
		c.line("## %s", c.heading)
		c.heading = ""
	}
	c.line("")
	c.line("%s: %s: %s", name, verdict, strings.ReplaceAll(why.Error(), "\n", " "))
}

// mark is what a figure has to reach; zero is nothing.
type mark struct {
	gate, aim float64
	low       bool // lower is better
}

// judge makes a row of the table of gates, and returns the verdict: "aim", "gate", "missed", or nothing where there is
// no gate.
func (c *checker) judge(name string, v float64, rounds []float64, want mark) string {
	if want == (mark{}) || v == 0 {
		return ""
	}
	reached := func(w float64) bool { return want.low && v <= w || !want.low && v >= w }
	verdict := "aim"
	switch {
	case !reached(want.gate):
		verdict = "**missed**"
		c.missed++
	case !reached(want.aim):
		verdict = "gate"
	}
	c.gates = append(c.gates,
		fmt.Sprintf("| %s | %.3g | %s | %.4g | %.4g | %s |", name, v, spread(rounds), want.gate, want.aim, verdict))
	return verdict
}

// spread is the least and the most of some values, as text.
func spread(list []float64) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f..%.2f", slices.Min(list), slices.Max(list))
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(list))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// versus measures two things in turn, and returns the rounds' ratios and the median of what each reaches.
func (c *checker) versus(ctx context.Context, rounds int,
	ours, theirs func(context.Context) (float64, error),
) (ratios []float64, our, their float64, err error) {
	var a, b []float64
	for range rounds {
		x, err := ours(ctx)
		if err != nil {
			return nil, 0, 0, err
		}
		y, err := theirs(ctx)
		if err != nil {
			return nil, 0, 0, err
		}
		if y <= 0 {
			return nil, 0, 0, errors.New("the other reaches nothing")
		}
		a, b, ratios = append(a, x), append(b, y), append(ratios, x/y)
	}
	return ratios, median(a), median(b), nil
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:1], " ")
}
