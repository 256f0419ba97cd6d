package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

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
		fmt.Fprintln(w, printableLines(e.text()))
		return
	}
	fields, err := json.Marshal(e)
	if err != nil {
		fields = []byte(`{}`) // plain structs of ours: cannot happen
	}
	fields = escaped(fields)
	sep := ","
	if len(fields) == 2 {
		sep = ""
	}
	fmt.Fprintf(o.stdout, "{%q:%q%s%s\n", "event", e.kind(), sep, fields[1:])
}

// controls reports whether a rune would control a terminal, or the direction of text.
func controls(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// printable replaces what would control a terminal, or the direction of text: of a
// string that somebody else has chosen, in any part.
func printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || controls(r) }) {
		return s
	}
	var b strings.Builder
	for i, n := 0, 0; i < len(s); i += n {
		r := rune(0)
		r, n = utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case controls(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// printableLines is printable that leaves the ends of lines, and tabs.
func printableLines(s string) string {
	if printable(s) == s {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		for i, part := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(printable(part))
		}
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// escaped writes what would control a terminal, and JSON may have in its strings, as
// JSON's escapes.
func escaped(object []byte) []byte {
	if !bytes.ContainsFunc(object, controls) {
		return object
	}
	out := make([]byte, 0, len(object)+64)
	for _, r := range string(object) {
		switch {
		case !controls(r) || r == '\n':
			out = utf8.AppendRune(out, r)
		case r < 1<<16:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		}
	}
	return out
}

// printf writes for people. What others have chosen in it is the caller's to make
// [printable].
func (o *output) printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.stdout, format, args...)
}

// note writes a remark to stderr, in whatever form the rest is.
func (o *output) note(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(o.stderr, "iwarp: note:", printable(s))
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
