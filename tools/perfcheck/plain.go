package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// plainServer is the other end of plain TCP of C, at one place.
type plainServer struct {
	addr, port string
	cmd        *exec.Cmd
	stdin      io.Closer
}

func (c *checker) stopPlain() {
	for _, s := range c.plains {
		_ = s.stdin.Close() // ends it
		_ = s.cmd.Wait()
	}
	clear(c.plains)
}

// plainProgram compiles plain TCP of C, once.
func (c *checker) plainProgram(ctx context.Context) (string, error) {
	program := filepath.Join(c.dir, "plain")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	return program, compile(ctx, program, "plain.c")
}

// plainAt starts the server at a place, once for each environment.
func (c *checker) plainAt(ctx context.Context, p *place, env []string) (*plainServer, error) {
	key := p.name + strings.Join(env, " ")
	if s := c.plains[key]; s != nil {
		return s, nil
	}
	program, err := c.plainProgram(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := c.serverAddr(p)
	if err != nil {
		return nil, err
	}
	s := &plainServer{addr: addr, cmd: exec.CommandContext(ctx, program, addr)}
	s.cmd.Env = append(os.Environ(), env...)
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	if err := c.start(p, s.cmd); err != nil {
		return nil, err
	}
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = stdin.Close()
		return nil, errors.Join(fmt.Errorf("plain.c: %w", err), s.cmd.Wait())
	}
	s.port = strings.TrimSpace(port)
	c.plains[key] = s
	return s, nil
}

// plain runs plain TCP of C once and returns the numbers that it prints.
func (c *checker) plain(ctx context.Context, p *place, env []string, mode string, size int) ([]float64, error) {
	s, err := c.plainAt(ctx, p, env)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.cmd.Path, s.addr, s.port, mode, strconv.Itoa(size),
		fmt.Sprintf("%.3f", c.duration.Seconds()))
	cmd.Env = append(os.Environ(), env...)
	out, err := c.client(p, cmd)
	if err != nil {
		return nil, fmt.Errorf("plain.c: %w", err)
	}
	var list []float64
	for f := range strings.FieldsSeq(string(out)) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil, fmt.Errorf("plain.c prints %q: %w", out, err)
		}
		list = append(list, v)
	}
	if want := map[string]int{"stream": 1, "ping": 4, "spin": 4}[mode]; len(list) != want {
		return nil, fmt.Errorf("plain.c prints %q", out)
	}
	return list, nil
}

// plainStream is the rate of plain TCP of C in GB/s (1e9 octets).
func (c *checker) plainStream(ctx context.Context, p *place, size int) (float64, error) {
	v, err := c.plain(ctx, p, nil, "stream", size)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// runIperf3 returns the rate of plain TCP by iperf3, which writes 1 MiB at a time.
func runIperf3(ctx context.Context, c *checker, at *place, size int) (float64, error) {
	addr, err := c.serverAddr(at)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	const port = "13338"
	server := exec.CommandContext(ctx, "iperf3", "-s", "-1", "-p", port)
	if err := c.start(at, server); err != nil {
		return 0, err
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	var out []byte
	for try := range 20 { // until the server listens
		client := exec.CommandContext(ctx, "iperf3", "-c", addr, "-p", port, "-t", "1", "-l", strconv.Itoa(size), "-C",
			"cubic", "-f", "m")
		if out, err = c.client(at, client); err == nil {
			break
		}
		time.Sleep(time.Duration(try) * 10 * time.Millisecond)
	}
	if err != nil {
		return 0, fmt.Errorf("iperf3: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); strings.Contains(line, "receiver") && len(f) > 6 {
			mbit, err := strconv.ParseFloat(f[6], 64)
			return mbit / 8e3, err
		}
	}
	return 0, fmt.Errorf("iperf3 prints %q", out)
}
