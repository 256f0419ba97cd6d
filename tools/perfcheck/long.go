package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
)

// A long fat path is a relay on loopback that delays and limits: 1 Gbit/s, and a
// round trip of so much.
const longRate = 125e6 // octets a second

var longTrips = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}

// longRow is an operation of 1 MiB, with what it takes to fill such a path.
type longRow struct {
	name string
	args []string
	ord  int // of Reads
}

var longRows = []longRow{
	{name: "Writes", args: []string{"--op=write"}, ord: 0},
	{name: "Sends", args: []string{"--op=send"}, ord: 0},
	{name: "Reads, ORD 1", args: []string{"--op=read", "--ord=1", "--depth=64"}, ord: 1},
	{name: "Reads, ORD 32", args: []string{"--op=read", "--ord=32", "--depth=64"}, ord: 32},
}

const longSize = 1 << 20

// longPaths measures one connection on long fat paths, of what can pass there: what
// plain TCP reaches, or as many Reads as may be outstanding in the time of one: a
// round trip, and its octets' time on the line.
func (c *checker) longPaths(ctx context.Context) error {
	begun := false
	for _, trip := range longTrips {
		for i := range longRows {
			r := &longRows[i]
			name := fmt.Sprintf("1 Gbit/s, round trip %v: 1 MiB %s", trip, r.name)
			if !c.wants(name) {
				continue
			}
			res, err := c.longPath(ctx, trip, r)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				c.fail(name, err)
				begun = false
				continue
			}
			possible := res.Baseline.GBps
			if r.ord > 0 {
				possible = min(possible, float64(r.ord)*longSize/(trip.Seconds()+longSize/longRate)/1e9)
			}
			if !begun {
				c.table("what", "MB/s", "plain TCP, MB/s", "possible, MB/s", "of it", "limited by", "gate", "aim", "")
				begun = true
			}
			want := mark{gate: 0.9, aim: 1}
			share := res.GBps / possible
			c.cells(name, fmt.Sprintf("%.1f", res.GBps*1e3), fmt.Sprintf("%.1f", res.Baseline.GBps*1e3),
				fmt.Sprintf("%.1f", possible*1e3),
				fmt.Sprintf("%.2f", share), res.Limit, number(want.gate), number(want.aim), c.judge(name+
					": of what is possible",
					share, nil, want))
		}
	}
	return nil
}

// longPath measures one row.
func (c *checker) longPath(ctx context.Context, trip time.Duration, r *longRow) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := exec.CommandContext(ctx, c.iwarp(), "bench", "--serve", "127.0.0.1:0", "--child", "--json",
		"--timeout=30s")
	stdin, err := server.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = stdin.Close() // ends it
		_ = server.Wait()
	}()
	var listening struct{ Address string }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err = errors.Join(err, json.Unmarshal(line, &listening)); err != nil {
		return nil, fmt.Errorf("the other end: %w", err)
	}
	path := iwarptest.RelayPath{Delay: trip / 2, Rate: longRate}
	relay, err := iwarptest.NewRelay(&iwarptest.RelayConfig{Forward: path, Back: path})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() {
		served <- relay.Serve(ctx, ln, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", listening.Address)
		})
	}()
	args := append([]string{ln.Addr().String(), "--baseline", "--timeout=30s", fmt.Sprintf("--size=%d", longSize)},
		r.args...)
	// Long enough for the first and the last round trip to count little.
	args = append(args, fmt.Sprintf("--samples=%d", min(c.samples, 2)), "--duration="+(time.Second+15*trip).String())
	results, err := c.bench(ctx, nil, args...)
	cancel()
	if err = errors.Join(err, <-served); err != nil {
		return nil, err
	}
	return results[0], nil
}
