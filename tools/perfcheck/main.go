// Perfcheck measures the table of docs/performance.md on this machine and writes
// a dated report of it. It is run by hand, on a machine that has nothing else to
// do: figures of shared machines say little. It uses "iwarp bench", which compares
// everything with plain TCP in the same run, and, where they are installed, UCX
// and libfabric, in turn with ours.
//
// Usage: perfcheck [-samples N] [-duration D] [-only TEXT] [-o FILE]
//
// It exits 1 when a gate is missed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	var c checker
	flag.IntVar(&c.samples, "samples", 9, "samples of each figure")
	flag.DurationVar(&c.duration, "duration", 300*time.Millisecond, "of a sample")
	flag.StringVar(&c.only, "only", "", "only rows whose name contains this")
	out := flag.String("o", "", "file of the report (default docs/performance/DATE.md)")
	boundSpec := flag.String("bound-serve", "", "be the receiver of a bound: for perfcheck itself")
	serve := flag.Bool("idle-serve", false, "be the other end of idle connections: for perfcheck itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *boundSpec != "" {
		if err := boundServe(*boundSpec); err != nil {
			fmt.Fprintln(os.Stderr, "perfcheck:", err)
			os.Exit(2)
		}
		return
	}
	if *serve {
		if err := idleServe(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "perfcheck:", err)
			os.Exit(2)
		}
		return
	}
	ok, err := c.run(ctx, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "perfcheck:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// checker is one run.
type checker struct {
	samples  int
	duration time.Duration
	only     string

	dir     string // of what is built
	machine string
	report  bytes.Buffer
	missed  int
}

func (c *checker) run(ctx context.Context, out string) (ok bool, err error) {
	if c.dir, err = os.MkdirTemp("", "perfcheck"); err != nil {
		return false, err
	}
	defer os.RemoveAll(c.dir)
	if b, err := exec.CommandContext(ctx, "go", "build", "-o", c.iwarp(), "./cmd/iwarp").CombinedOutput(); err != nil {
		return false, fmt.Errorf("building iwarp: %w\n%s", err, b)
	}
	now := time.Now()
	c.line("# Performance, measured on %s", now.Format("2006-01-02"))
	c.line("")
	c.line("By `go run ./tools/perfcheck`, medians of %d rounds of %v, each beside its baseline. Load average at the start: %s.",
		c.samples, c.duration, loadAverage())
	c.line("")
	c.line("| what | measured | min..max of the rounds | gate | aim | |")
	c.line("| --- | --- | --- | --- | --- | --- |")
	for i := range rows {
		if r := &rows[i]; strings.Contains(r.name, c.only) {
			if err := c.measure(ctx, r); err != nil {
				return false, fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	if err := c.bounds(ctx); err != nil {
		return false, fmt.Errorf("the bounds: %w", err)
	}
	c.peers(ctx)
	if err := c.idle(ctx); err != nil {
		return false, fmt.Errorf("idle connections: %w", err)
	}
	c.line("")
	c.line("Machine: %s. Load average at the end: %s.", c.machine, loadAverage())
	if out == "" {
		out = filepath.Join("docs", "performance", now.Format("2006-01-02")+".md")
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return false, err
	}
	if err := os.WriteFile(out, c.report.Bytes(), 0o644); err != nil {
		return false, err
	}
	fmt.Printf("\nwritten to %s; %d gates missed\n", out, c.missed)
	return c.missed == 0, nil
}

func (c *checker) iwarp() string { return filepath.Join(c.dir, "iwarp") }

// line writes a line of the report, which is shown too.
func (c *checker) line(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	fmt.Println(s)
	c.report.WriteString(s + "\n")
}

// result is what perfcheck needs of a result of "iwarp bench --json".
type result struct {
	Event     string  `json:"event"`
	GBps      float64 `json:"gb_per_s"`
	Rate      float64 `json:"messages_per_s"`
	Allocs    float64 `json:"allocs_per_op"`
	Ratio     float64 `json:"ratio"`
	CPURatio  float64 `json:"cpu_ratio"`
	CallRatio float64 `json:"syscall_ratio"`
	Median    float64 `json:"median_ns"`
	Rounds    []struct {
		GBps  float64 `json:"gb_per_s"`
		Ratio float64 `json:"ratio"`
	} `json:"rounds"`

	Processor string `json:"processor"`
	Kernel    string `json:"crc_kernel"`
	Go        string `json:"go"`
	CPUs      int    `json:"cpus"`
}

// bench runs "iwarp bench" and gives its one result.
func (c *checker) bench(ctx context.Context, env []string, args ...string) (*result, error) {
	args = append([]string{"bench", "--json", fmt.Sprintf("--samples=%d", c.samples), "--duration=" + c.duration.String()}, args...)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.iwarp(), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("iwarp %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	var last result
	for line := range bytes.Lines(out) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		if r.Event == "machine" && c.machine == "" {
			c.machine = fmt.Sprintf("%s, %d processors, CRC32c by %s, %s", r.Processor, r.CPUs, r.Kernel, r.Go)
		}
		last = r
	}
	return &last, nil
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:1], " ")
}
