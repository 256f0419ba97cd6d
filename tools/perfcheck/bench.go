package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// latency is what "iwarp bench --json --lat" says of one side.
type latency struct {
	Median float64 `json:"median_ns"`
	P99    float64 `json:"p99_ns"`
	P999   float64 `json:"p999_ns"`
	CPU    float64 `json:"cpu_ns"`
}

// crowd is what it says of several connections.
type crowd struct {
	Jain   float64 `json:"jain"`
	Memory float64 `json:"memory_per_conn"`
}

// result is what perfcheck needs of a result of "iwarp bench --json".
type result struct {
	Event     string  `json:"event"`
	Octets    int     `json:"octets"`
	GBps      float64 `json:"gb_per_s"`
	Rate      float64 `json:"messages_per_s"`
	CPU       float64 `json:"cpu_s_per_gb"`
	Calls     float64 `json:"syscalls_per_gb"`
	Allocs    float64 `json:"allocs_per_op"`
	Ratio     float64 `json:"ratio"`
	CPURatio  float64 `json:"cpu_ratio"`
	CallRatio float64 `json:"syscall_ratio"`
	Limit     string  `json:"limited_by"`
	latency
	crowd
	Baseline struct {
		GBps float64 `json:"gb_per_s"`
		Rate float64 `json:"messages_per_s"`
		latency
		crowd
	} `json:"baseline"`
	Net struct {
		Retransmissions uint64 `json:"retransmissions"`
		Void            int    `json:"void_samples"`
	} `json:"net"`
	Rounds []struct {
		GBps  float64 `json:"gb_per_s"`
		Ratio float64 `json:"ratio"`
	} `json:"rounds"`

	Error     string `json:"error"`
	Processor string `json:"processor"`
	Kernel    string `json:"crc_kernel"`
	Go        string `json:"go"`
	CPUs      int    `json:"cpus"`
}

// ratios are those of the rounds.
func (r *result) ratios() (list []float64) {
	for _, round := range r.Rounds {
		if round.Ratio > 0 {
			list = append(list, round.Ratio)
		}
	}
	return list
}

// bench runs "iwarp bench" and returns its results, one for each size; with an error, those before it.
func (c *checker) bench(ctx context.Context, env []string, args ...string) ([]*result, error) {
	// The last of a flag holds: args may have their own.
	args = append([]string{
		"bench", "--json", fmt.Sprintf("--samples=%d", c.samples), "--duration=" + c.duration.String(),
	},
		args...)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.iwarp(), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	var results []*result
	for line := range bytes.Lines(out) {
		r := new(result)
		if jerr := json.Unmarshal(line, r); jerr != nil {
			return nil, fmt.Errorf("iwarp %s: %w", strings.Join(args, " "), errors.Join(err, jerr))
		}
		switch r.Event {
		case "machine":
			if r.CPUs < c.processors {
				break // it was held on one of them
			}
			c.processors = r.CPUs
			c.machine = fmt.Sprintf("%s, %d processors, CRC32c by %s, %s", r.Processor, r.CPUs, r.Kernel, r.Go)
		case "result":
			results = append(results, r)
		case "error":
			err = errors.Join(err, errors.New(r.Error))
		}
	}
	if err == nil && len(results) == 0 {
		err = errors.New("no result")
	}
	if err != nil {
		err = fmt.Errorf("iwarp %s: %w", strings.Join(args, " "), err)
	}
	return results, err
}

// rate measures what a command line of "iwarp bench" reaches, in one sample, in GB/s (1e9 octets).
func (c *checker) rate(args ...string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		one := *c
		one.samples = 1
		r, err := one.bench(ctx, nil, args...)
		if err != nil {
			return 0, err
		}
		return r[0].GBps, nil
	}
}

// sizeName names a number of octets.
func sizeName(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d octets", n)
}
