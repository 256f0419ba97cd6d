package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A peer is another stack that does RDMA Writes over TCP.
type peer struct {
	name string
	// prepare says why the peer cannot be run, if so.
	prepare func(ctx context.Context, c *checker) error
	// run gives GB/s (1e9 octets).
	run func(ctx context.Context, c *checker, size int) (float64, error)
	// gate and aim by size: how many times the peer's our rate must be.
	want map[int][2]float64
}

// peerSizes are measured in this order.
var peerSizes = []int{1 << 20, 64 << 10, 4 << 10}

// peerRounds is how many rounds there are with each peer and size; ours and the
// peer's are in turn.
const peerRounds = 7

var peerList = []peer{
	{
		name: "UCX put_bw", prepare: needs("ucx_perftest"), run: runUCX,
		want: map[int][2]float64{1 << 20: {10, 18}, 64 << 10: {3, 4}, 4 << 10: {4, 7}},
	},
	{
		name: "libfabric fi_write", prepare: buildFabric, run: runFabric,
		want: map[int][2]float64{1 << 20: {0.55, 0.80}, 64 << 10: {0.80, 1.1}, 4 << 10: {3, 6}},
	},
}

// peers measures the others.
func (c *checker) peers(ctx context.Context) {
	for i := range peerList {
		p := &peerList[i]
		if !strings.Contains(p.name, c.only) {
			continue
		}
		if err := p.prepare(ctx, c); err != nil {
			c.line("| against %s | skipped: %v | | | | |", p.name, err)
			continue
		}
		for _, size := range peerSizes {
			if err := c.against(ctx, p, size); err != nil {
				c.line("| against %s, %s | failed: %v | | | | |", p.name, sizeName(size), err)
			}
		}
	}
	c.iperf(ctx)
}

func sizeName(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func (c *checker) against(ctx context.Context, p *peer, size int) error {
	var ratios, theirs []float64
	one := *c
	one.samples = 1
	for range peerRounds {
		ours, err := one.bench(ctx, nil, fmt.Sprintf("--size=%d", size))
		if err != nil {
			return err
		}
		their, err := p.run(ctx, c, size)
		if err != nil {
			return err
		}
		theirs = append(theirs, their)
		ratios = append(ratios, ours.GBps/their)
	}
	want := p.want[size]
	c.judge(fmt.Sprintf("%s Writes against %s (%.2f GB/s): times its rate", sizeName(size), p.name, median(theirs)),
		median(ratios), ratios, want[0], want[1], false)
	return nil
}

func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

func needs(program string) func(context.Context, *checker) error {
	return func(ctx context.Context, c *checker) error {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed", program)
		}
		return c.buildCongestion(ctx)
	}
}

// buildCongestion makes the library that gives a peer's sockets our congestion
// control.
func (c *checker) buildCongestion(ctx context.Context) error {
	return compile(ctx, filepath.Join(c.dir, "congestion.so"), "congestion.c", "-shared", "-fPIC")
}

func buildFabric(ctx context.Context, c *checker) error {
	if err := c.buildCongestion(ctx); err != nil {
		return err
	}
	return compile(ctx, filepath.Join(c.dir, "fi_write"), "fi_write.c", "-lfabric")
}

func compile(ctx context.Context, out, source string, options ...string) error {
	args := append([]string{"-O2", "-o", out, filepath.Join("tools", "perfcheck", "peers", source)}, options...)
	if b, err := exec.CommandContext(ctx, "cc", args...).CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(string(b), "\n")
		return fmt.Errorf("%s does not build: %w: %s", source, err, first)
	}
	return nil
}

// command is a peer's program, whose sockets have the congestion control that
// "iwarp bench" uses.
func (c *checker) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(),
		"CONGESTION=cubic", "LD_PRELOAD="+filepath.Join(c.dir, "congestion.so"),
		"UCX_TLS=tcp", "UCX_NET_DEVICES=lo", "UCX_WARN_UNUSED_ENV_VARS=n",
	)
	return cmd
}

// peerTime bounds one run of a peer.
const peerTime = 30 * time.Second

// runUCX runs ucx_perftest at both ends. Its port must be free.
func runUCX(ctx context.Context, c *checker, size int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	const port = "13337"
	server := c.command(ctx, "ucx_perftest", "-p", port)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	count := map[int]int{1 << 20: 300, 64 << 10: 5000, 4 << 10: 50000}[size]
	var out []byte
	var err error
	for try := range 20 { // until the server listens
		client := c.command(ctx, "ucx_perftest", "127.0.0.1", "-p", port, "-t", "ucp_put_bw", "-f", "-v",
			"-s", strconv.Itoa(size), "-n", strconv.Itoa(count), "-w", strconv.Itoa(count/10))
		if out, err = client.Output(); err == nil {
			break
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	if err != nil {
		return 0, fmt.Errorf("ucx_perftest: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fields := strings.Split(lines[len(lines)-1], ",")
	if len(fields) < 6 {
		return 0, fmt.Errorf("ucx_perftest says %q", out)
	}
	mib, err := strconv.ParseFloat(fields[5], 64) // overall_bw
	return mib * (1 << 20) / 1e9, err
}

func runFabric(ctx context.Context, c *checker, size int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	program := filepath.Join(c.dir, "fi_write")
	target := c.command(ctx, program)
	stdin, err := target.StdinPipe()
	if err != nil {
		return 0, err
	}
	stdout, err := target.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := target.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = stdin.Close(); _ = target.Process.Kill(); _ = target.Wait() }()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("fi_write: %w", err)
	}
	args := append([]string{strconv.Itoa(size), strconv.FormatFloat(c.duration.Seconds(), 'f', 3, 64)}, strings.Fields(line)...)
	out, err := c.command(ctx, program, args...).Output()
	if err != nil {
		return 0, fmt.Errorf("fi_write: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// iperf shows what iperf3 makes of plain TCP, for comparison.
func (c *checker) iperf(ctx context.Context) {
	if !strings.Contains("iperf3", c.only) {
		return
	}
	if _, err := exec.LookPath("iperf3"); err != nil {
		c.line("| plain TCP by iperf3 | skipped: not installed | | | | |")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	server := exec.CommandContext(ctx, "iperf3", "-s", "-1", "-p", "13338")
	if err := server.Start(); err != nil {
		return
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	script := `for i in 1 2 3 4 5 6 7 8 9; do iperf3 -c 127.0.0.1 -p 13338 -t 2 -l 1M -C cubic -f g && exit; sleep 0.1; done`
	out, err := exec.CommandContext(ctx, "sh", "-c", script).Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); strings.Contains(line, "receiver") && len(f) > 6 {
			if gbit, err := strconv.ParseFloat(f[6], 64); err == nil {
				c.line("| plain TCP by iperf3, 1 MiB writes | %.2f GB/s | | | | |", gbit/8)
			}
		}
	}
}
