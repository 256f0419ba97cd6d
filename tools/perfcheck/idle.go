package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/internal/procstat"
)

// idleConns is how many idle connections are held at once.
const idleConns = 10000

// idleServe is the other end of the idle connections, in a process of its own: it
// prints its address, and for each line of input its memory.
func idleServe(ctx context.Context) error {
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		return err
	}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{Device: dev})
	if err != nil {
		return err
	}
	defer ln.Close()
	fmt.Println(ln.Addr())
	go func() {
		for {
			conn, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			go func() { // as a server would
				buf := make([]byte, 8)
				for {
					m, err := conn.Recv(ctx, buf)
					if err != nil || conn.Send(ctx, buf[:m.Length]) != nil {
						return
					}
				}
			}()
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(resident())
	}
	return nil
}

// resident is the memory of this process, in octets, after a collection.
func resident() int {
	debug.FreeOSMemory()
	return int(procstat.Resident())
}

// idle measures what connections cost on which nothing happens any more: each has
// carried a Send there and back.
func (c *checker) idle(ctx context.Context) error {
	if !c.wants("idle connections") {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, exe, "-idle-serve")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	defer func() { _ = stdin.Close(); _ = child.Wait() }()
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	addr := lines.Text()
	other := func() int {
		_, _ = io.WriteString(stdin, "\n")
		lines.Scan()
		n, _ := strconv.Atoi(lines.Text())
		return n
	}
	dev, err := iwarp.NewDevice(nil)
	if err != nil {
		return err
	}
	here, there := resident(), other()
	conns := make([]*iwarp.Conn, idleConns)
	var wg sync.WaitGroup
	var failed error
	var mu sync.Mutex
	for part := range 8 {
		wg.Go(func() {
			buf := make([]byte, 8)
			for i := part; i < idleConns; i += 8 {
				conn, err := iwarp.Dial(ctx, "tcp", addr, &iwarp.Config{Device: dev})
				if err == nil {
					err = conn.Send(ctx, buf)
				}
				if err == nil {
					_, err = conn.Recv(ctx, buf)
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				conns[i] = conn
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	c.table("idle connections", "KiB each", "gate", "aim", "")
	for _, end := range []struct {
		name   string
		octets int
	}{{name: "dialing end", octets: resident() - here}, {name: "accepting end", octets: other() - there}} {
		name, each, want := fmt.Sprintf("%d idle connections, %s", idleConns, end.name),
			float64(end.octets)/idleConns/1024, mark{gate: 32, aim: 16, low: true}
		c.cells(name, fmt.Sprintf("%.3g", each), number(want.gate), number(want.aim),
			c.judge(name+": KiB each", each, nil, want))
	}
	for _, conn := range conns {
		go conn.Abort()
	}
	return nil
}
