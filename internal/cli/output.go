package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"golang.org/x/term"
)

// output is where a command tells what happens: in lines for people, or in JSON,
// an object a line. Its methods may be called from any goroutine.
type output struct {
	mu       sync.Mutex
	stdout   *noted
	stderr   io.Writer
	json     bool
	terminal bool // stdout is one
	style    bool // and may be styled
}

func newOutput(stdout, stderr io.Writer) *output {
	o := &output{stdout: &noted{w: stdout}, stderr: stderr}
	if f, ok := stdout.(*os.File); ok {
		o.terminal = term.IsTerminal(int(f.Fd()))
	}
	// https://no-color.org; old Windows consoles show the sequences as they are.
	o.style = o.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
	return o
}

// noted is a writer that keeps its first error, so that output that got lost (a
// full disk) does not pass for success.
type noted struct {
	w   io.Writer
	err error
}

func (n *noted) Write(p []byte) (int, error) {
	k, err := n.w.Write(p)
	if n.err == nil {
		n.err = err
	}
	return k, err
}

// lost gives the error with which output was lost, nil if none was.
func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stdout.err
}

// event is one thing that happened. It is an object with snake_case keys, the
// first of which is "event", in JSON.
type event interface {
	kind() string
	text() string // for people, in one line
}

// emit tells of an event: on stdout, but for people errors go to stderr.
func (o *output) emit(e event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.json {
		var w io.Writer = o.stdout
		if e.kind() == kindError {
			w = o.stderr
		}
		fmt.Fprintln(w, e.text())
		return
	}
	fields, err := json.Marshal(e)
	if err != nil {
		fields = []byte(`{}`) // plain structs of ours: cannot happen
	}
	sep := ","
	if len(fields) == 2 {
		sep = ""
	}
	fmt.Fprintf(o.stdout, "{%q:%q%s%s\n", "event", e.kind(), sep, fields[1:])
}

// printf writes for people.
func (o *output) printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.stdout, format, args...)
}

// note writes a remark to stderr, in whatever form the rest is.
func (o *output) note(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(o.stderr, "iwarp: note:", s)
}

// Styles, by ANSI escape sequences where the terminal takes them.
func (o *output) bold(s string) string  { return o.sgr("1", s) }
func (o *output) dim(s string) string   { return o.sgr("2", s) }
func (o *output) green(s string) string { return o.sgr("32", s) }
func (o *output) red(s string) string   { return o.sgr("31", s) }

func (o *output) sgr(code, s string) string {
	if !o.style {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
