package main

import (
	"context"
	"time"
)

// manyRows are many active connections with small Sends. Where a process may not
// have as many files as both ends take, each end is a process.
var manyRows = []struct {
	name string
	args []string
}{
	{
		name: "1000 connections in one process: Sends of 64 octets",
		args: []string{"--conns=1000", "--buffered", "--one-process"},
	},
	{
		name: "1000 connections in one process: ping-pong of 64 octets",
		args: []string{"--conns=1000", "--lat", "--one-process"},
	},
	{
		name: "10000 connections between two processes: Sends of 64 octets",
		args: []string{"--conns=10000", "--buffered"},
	},
	{
		name: "10000 connections between two processes: ping-pong of 64 octets",
		args: []string{"--conns=10000", "--lat", "--duration=5s"},
	},
}

// many measures many connections at once.
func (c *checker) many(ctx context.Context) error {
	begun := false
	for _, r := range manyRows {
		if !c.wants(r.name) {
			continue
		}
		args := append([]string{
			"--baseline", "--op=send", "--size=64", "--samples=2",
			"--duration=" + max(c.duration, time.Second).String(),
		},
			r.args...)
		results, err := c.bench(ctx, nil, args...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			c.fail(r.name, err)
			begun = false
			continue
		}
		if !begun {
			c.table("what", "messages/s", "fairness", "99.9 %, ms", "KiB a connection, both ends",
				"plain TCP of Go", "fairness", "99.9 %, ms", "KiB a connection, both ends")
			begun = true
		}
		cells := []string{r.name}
		res := results[0]
		for _, f := range []struct {
			rate float64
			latency
			crowd
		}{
			{rate: res.Rate, latency: res.latency, crowd: res.crowd},
			{rate: res.Baseline.Rate, latency: res.Baseline.latency, crowd: res.Baseline.crowd},
		} {
			cells = append(cells, perSecond(f.rate), number(f.Jain), number(f.P999/1e6), number(f.Memory/1024))
		}
		c.cells(cells...)
	}
	return nil
}
