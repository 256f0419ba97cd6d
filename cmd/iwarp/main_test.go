package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"iwarp": func() { os.Exit(run()) }})
}

// patience bounds whatever a script waits for.
const patience = 30 * time.Second

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve": serve, "proxy": proxy, "end": end, "junk": junk, "badserver": badserver,
		},
	})
}

// server is a running "iwarp ping --serve" or "iwarp proxy".
type server struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	read           chan struct{} // closed when stdout has been read to its end
}

var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// serve NAME FLAG... starts a server; $NAME is its address.
func serve(ts *testscript.TestScript, _ bool, args []string) {
	launch(ts, args[0], append([]string{"ping", "--serve", "127.0.0.1:0"}, args[1:]...))
}

// proxy NAME FLAG... starts a proxy; $NAME is its address.
func proxy(ts *testscript.TestScript, _ bool, args []string) {
	launch(ts, args[0], append([]string{"proxy"}, args[1:]...))
}

func launch(ts *testscript.TestScript, name string, args []string) {
	s := &server{read: make(chan struct{})}
	path, err := exec.LookPath("iwarp")
	ts.Check(err)
	s.cmd = exec.Command(path, args...)
	s.cmd.Dir = ts.MkAbs(".")
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Defer(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	first := make(chan string, 1)
	go func() {
		defer close(s.read)
		r := bufio.NewReader(out)
		line, _ := r.ReadString('\n')
		s.stdout.WriteString(line)
		first <- address.FindString(line)
		_, _ = io.Copy(&s.stdout, r)
	}()
	select {
	case addr := <-first:
		if addr == "" {
			ts.Fatalf("the server's first line names no address")
		}
		ts.Setenv(name, addr)
	case <-time.After(patience):
		ts.Fatalf("the server does not say that it listens")
	}
	servers(ts)[name] = s
}

// end NAME SIGNAL ends a server, which must exit 0, and leaves what it printed in
// NAME.out and NAME.err.
func end(ts *testscript.TestScript, _ bool, args []string) {
	s := servers(ts)[args[0]]
	sig := map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": os.Interrupt}[args[1]]
	ts.Check(s.cmd.Process.Signal(sig))
	timer := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	<-s.read
	err := s.cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".out"), s.stdout.Bytes(), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".err"), s.stderr.Bytes(), 0o600))
	if err != nil {
		ts.Fatalf("the server ended with %v:\n%s%s", err, &s.stdout, &s.stderr)
	}
}

var running = map[*testscript.TestScript]map[string]*server{}

func servers(ts *testscript.TestScript) map[string]*server {
	mu <- struct{}{}
	defer func() { <-mu }()
	if running[ts] == nil {
		running[ts] = map[string]*server{}
	}
	return running[ts]
}

var mu = make(chan struct{}, 1) // scripts run side by side

// junk ADDRESS HEX sends octets to a server and waits until it closes.
func junk(ts *testscript.TestScript, _ bool, args []string) {
	octets, err := hex.DecodeString(strings.Join(args[1:], ""))
	ts.Check(err)
	nc, err := net.Dial("tcp", args[0])
	ts.Check(err)
	defer nc.Close()
	ts.Check(nc.SetDeadline(time.Now().Add(patience)))
	_, err = nc.Write(octets)
	ts.Check(err)
	if len(octets) == 0 {
		return // close at once
	}
	if _, err = io.Copy(io.Discard, nc); err != nil && os.IsTimeout(err) {
		ts.Fatalf("the server does not close the connection")
	}
}

// badserver NAME HEX is a server that answers the first octets of a client with
// HEX and closes; without HEX it closes at once, and with "silent" it does neither.
func badserver(ts *testscript.TestScript, _ bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], ln.Addr().String())
	done := make(chan struct{})
	ts.Defer(func() { _ = ln.Close(); <-done })
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			switch {
			case len(args) == 1:
			case args[1] == "silent":
				defer nc.Close() // when the listener has closed
				continue
			default:
				octets, _ := hex.DecodeString(args[1])
				_, _ = nc.Read(make([]byte, 4096))
				_, _ = nc.Write(octets)
			}
			_ = nc.Close()
		}
	}()
}
