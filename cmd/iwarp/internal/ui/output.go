package ui

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

// Output is where a command tells what happens: in lines for people, or in JSON,
// an object a line. Its methods may be called from any goroutine.
type Output struct {
	mu       sync.Mutex
	Stdout   *noted
	stderr   io.Writer
	JSON     bool
	Terminal bool // stdout is one
	Style    bool // and may be styled
}

// NewOutput writes to stdout, and for people errors and notes to stderr. Where stdout
// is a terminal, text may be styled.
func NewOutput(stdout, stderr io.Writer) *Output {
	o := &Output{Stdout: &noted{w: stdout}, stderr: stderr}
	if f, ok := stdout.(*os.File); ok {
		o.Terminal = term.IsTerminal(int(f.Fd()))
	}
	// https://no-color.org; old Windows consoles show the sequences as they are.
	o.Style = o.Terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && runtime.GOOS != "windows"
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

// lost returns the error with which output was lost, nil if none was.
func (o *Output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Stdout.err
}

// Size is that of the terminal, 0 by 0 where stdout is none.
func (o *Output) Size() (width, height int) {
	f, ok := o.Stdout.w.(*os.File)
	if !ok || !o.Terminal {
		return 0, 0
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// Event is one thing that happened. It is an object with snake_case keys, the
// first of which is "event", in JSON.
type Event interface {
	EventKind() string
	Text() string // for people, in one line
}

// Emit tells of an event: on stdout, but for people errors go to stderr.
func (o *Output) Emit(e Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.JSON {
		var w io.Writer = o.Stdout
		if e.EventKind() == kindError {
			w = o.stderr
		}
		fmt.Fprintln(w, PrintableLines(e.Text()))
		return
	}
	fields, err := json.Marshal(e)
	if err != nil {
		fields = []byte(`{}`) // plain structs of ours: cannot happen
	}
	fields = Escaped(fields)
	sep := ","
	if len(fields) == 2 {
		sep = ""
	}
	fmt.Fprintf(o.Stdout, "{%q:%q%s%s\n", "event", e.EventKind(), sep, fields[1:])
}

// Controls reports whether a rune would control a terminal, or the direction of text.
func Controls(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// Printable replaces what would control a terminal, or the direction of text: of a
// string that somebody else has chosen, in any part.
func Printable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || Controls(r) }) {
		return s
	}
	var b strings.Builder
	for i, n := 0, 0; i < len(s); i += n {
		r := rune(0)
		r, n = utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Controls(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// PrintableLines is printable that leaves the ends of lines, and tabs.
func PrintableLines(s string) string {
	if Printable(s) == s {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		for i, part := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(Printable(part))
		}
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Escaped writes what would control a terminal, and JSON may have in its strings, as
// JSON's escapes.
func Escaped(object []byte) []byte {
	if !bytes.ContainsFunc(object, Controls) {
		return object
	}
	out := make([]byte, 0, len(object)+64)
	for _, r := range string(object) {
		switch {
		case !Controls(r) || r == '\n':
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

// Printf writes for people. What others have chosen in it is the caller's to make
// [printable].
func (o *Output) Printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(o.Stdout, format, args...)
}

// Note writes a remark to stderr, in whatever form the rest is.
func (o *Output) Note(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintln(o.stderr, "iwarp: note:", Printable(s))
}

// Styles are ANSI escape sequences, where the terminal takes them.

// Bold returns s bold.
func (o *Output) Bold(s string) string { return o.sgr("1", s) }

// Dim returns s dim.
func (o *Output) Dim(s string) string { return o.sgr("2", s) }

// Green returns s green.
func (o *Output) Green(s string) string { return o.sgr("32", s) }

// Red returns s red.
func (o *Output) Red(s string) string { return o.sgr("31", s) }

func (o *Output) sgr(code, s string) string {
	if !o.Style {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
