package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A peer is another program that moves octets over TCP, which ours is compared with.
type peer struct {
	name  string
	at    *place
	words string   // what is said of our Writes
	args  []string // and of "iwarp bench"
	sizes []int
	// prepare says why the peer cannot be run, if so.
	prepare func(ctx context.Context, c *checker) error
	// run returns GB/s (1e9 octets).
	run func(ctx context.Context, c *checker, at *place, size int) (float64, error)
	// want is, by size, how many times the peer's our rate must be.
	want map[int]mark
}

// peerRounds is the most rounds that there are with each peer and size; ours and the peer's are in turn.
const peerRounds = 7

var (
	peerSizes = []int{1 << 20, 64 << 10, 4 << 10}
	oneMiB    = []int{1 << 20}
	crcOff    = []string{"--crc=off"}
)

var peerList = []peer{
	{
		name: "UCX put_bw", at: &loopback, sizes: peerSizes, prepare: needs("ucx_perftest"), run: runUCX,
		want: map[int]mark{1 << 20: {gate: 10, aim: 18}, 64 << 10: {gate: 3, aim: 4}, 4 << 10: {gate: 4, aim: 7}},
	},
	{
		name: "libfabric fi_write", at: &loopback, sizes: peerSizes, prepare: buildFabric, run: runFabric,
		want: map[int]mark{
			1 << 20: {gate: 0.55, aim: 0.80}, 64 << 10: {gate: 0.80, aim: 1.1}, 4 << 10: {gate: 3, aim: 6},
		},
	},
	{
		name: "libfabric fi_write", at: &loopback, words: ", CRC off,", args: crcOff, sizes: oneMiB,
		prepare: buildFabric, run: runFabric,
		want: map[int]mark{1 << 20: {gate: 0.85, aim: 1}},
	},
	{
		name: "plain TCP of C", at: &loopback, sizes: oneMiB, prepare: buildPlain, run: runPlain,
		want: map[int]mark{1 << 20: {gate: 0.65, aim: 0.85}},
	},
	{
		name: "plain TCP of C", at: &loopback, words: ", CRC off,", args: crcOff, sizes: oneMiB, prepare: buildPlain,
		run: runPlain,
	},
	{name: "plain TCP of C", at: &veth, sizes: oneMiB, prepare: buildPlain, run: runPlain},
	{name: "plain TCP of C", at: &jumbo, sizes: oneMiB, prepare: buildPlain, run: runPlain},
	{name: "iperf3", at: &loopback, sizes: oneMiB, prepare: needs("iperf3"), run: runIperf3},
	{name: "iperf3", at: &veth, sizes: oneMiB, prepare: needs("iperf3"), run: runIperf3},
	{name: "iperf3", at: &jumbo, sizes: oneMiB, prepare: needs("iperf3"), run: runIperf3},
}

func buildPlain(ctx context.Context, c *checker) error {
	_, err := c.plainProgram(ctx)
	return err
}

func runPlain(ctx context.Context, c *checker, at *place, size int) (float64, error) {
	return c.plainStream(ctx, at, size)
}

// peerRow names a row.
func peerRow(p *peer, size int) string {
	return fullName(p.at, fmt.Sprintf("%s Writes%s over %s", sizeName(size), p.words, p.name))
}

// peers measures the others, each in turn with ours.
func (c *checker) peers(ctx context.Context) error {
	begun := false
	for i := range peerList {
		p := &peerList[i]
		for _, size := range p.sizes {
			name := peerRow(p, size)
			if !c.wants(name) {
				continue
			}
			err := c.missing(p.at)
			if err == nil {
				err = p.prepare(ctx, c)
			}
			if err != nil {
				c.skip(name, err)
				begun = false
				continue
			}
			ours := c.rate(append(append([]string{fmt.Sprintf("--size=%d", size)}, p.args...), p.at.args()...)...)
			theirs := func(ctx context.Context) (float64, error) { return p.run(ctx, c, p.at, size) }
			t := ratioTable{what: "times its rate", rounds: min(c.samples, peerRounds), begun: &begun}
			if err := c.ratioRow(ctx, &t, name, ours, theirs, p.want[size]); err != nil {
				return err
			}
		}
	}
	return nil
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
func runUCX(ctx context.Context, c *checker, _ *place, size int) (float64, error) {
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

func runFabric(ctx context.Context, c *checker, _ *place, size int) (float64, error) {
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
	args := append([]string{strconv.Itoa(size), strconv.FormatFloat(c.duration.Seconds(), 'f', 3, 64)},
		strings.Fields(line)...)
	out, err := c.command(ctx, program, args...).Output()
	if err != nil {
		return 0, fmt.Errorf("fi_write: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}
