// Perfcheck measures the figures of docs/performance.md on this machine and writes
// a dated report of them. It is run by hand, on a machine that has nothing else to
// do: figures of shared machines say little. It uses "iwarp bench", which compares
// everything with plain TCP of Go in the same run, on loopback and, as root on
// Linux, on a network of its own, and, in turn with ours, plain TCP of C, and UCX,
// libfabric and iperf3 where they are installed. What cannot be measured is listed
// with the reason.
//
// Usage: perfcheck [-rows REGEXP] [-quick] [-list] [-samples N] [-duration D] [-o FILE]
//
// With -rows nothing is written but to standard output, unless -o says where. It
// exits 1 when a gate is missed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	c := checker{machine: "unknown"}
	rows := flag.String("rows", "", "only rows whose name matches this regular expression")
	quick := flag.Bool("quick", false, "5 samples of 100ms")
	flag.BoolVar(&c.list, "list", false, "print the names of the rows and measure nothing")
	flag.IntVar(&c.samples, "samples", 9, "samples of each figure")
	flag.DurationVar(&c.duration, "duration", 300*time.Millisecond, "of a sample")
	out := flag.String("o", "",
		"file of the report; plots go to a file of the same name that ends in .svg (default docs/performance/DATE.md)")
	serve := flag.Bool("idle-serve", false, "be the other end of idle connections: for perfcheck itself")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *quick {
		c.samples, c.duration = 5, 100*time.Millisecond
	}
	ok := true
	err := error(nil)
	if *serve {
		err = idleServe(ctx)
	} else if c.rows, err = regexp.Compile(*rows); err == nil {
		if *out == "" && *rows == "" {
			*out = "docs/performance/" + time.Now().Format(time.DateOnly) + ".md"
		}
		if flag.NArg() > 0 || c.samples < 1 || c.duration <= 0 {
			err = errors.New("usage: perfcheck [-rows REGEXP] [-quick] [-list] [-samples N] [-duration D] [-o FILE]")
		} else {
			ok, err = c.run(ctx, *out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "perfcheck:", err)
		stop()
		os.Exit(2)
	}
	if !ok {
		stop()
		os.Exit(1)
	}
}
