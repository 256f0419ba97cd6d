package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// The exit codes of "iwarp cp" beside those of every command: rsync's, where it has one.
const (
	exitAccess   = 5  // the server does not let us in, or is not who it should be
	exitNetwork  = 10 // no connection, or it broke for good
	exitFiles    = 11 // a directory here cannot be used
	exitProtocol = 12 // the other end said what it must not say
	exitStopped  = 20 // interrupted
	exitPartial  = 23 // some files could not be copied
	exitVanished = 24 // some files went before they could be read
	exitTimeout  = 30 // the server was silent for too long
)

// fileEvent tells of a file.
type fileEvent struct {
	Path   string `json:"path"`
	To     string `json:"to"`
	Kind   string `json:"kind"`
	Octets int64  `json:"octets"`
	Action string `json:"action"` // copied, resumed, unchanged, would_copy, failed
	Error  string `json:"error,omitempty"`
}

func (e fileEvent) EventKind() string { return "file" }

func (e fileEvent) Text() string {
	if e.Error != "" {
		return fmt.Sprintf("iwarp cp: %s: %s", e.Path, strings.TrimPrefix(e.Error, e.Path+": "))
	}
	return fmt.Sprintf("%-10s %s", strings.ReplaceAll(e.Action, "_", " "), e.To)
}

// summaryEvent is the last line.
type summaryEvent struct {
	Copied    uint64        `json:"copied"`
	Unchanged uint64        `json:"unchanged"`
	Failed    uint64        `json:"failed"`
	Octets    int64         `json:"octets"` // that were moved
	Had       int64         `json:"had"`    // that were there from an earlier run
	Elapsed   time.Duration `json:"elapsed_ns"`
	ExitCode  int           `json:"exit_code"`
	dry       bool
}

func (e summaryEvent) EventKind() string { return "summary" }

// entries counts files, directories and links.
func entries(n uint64) string { return fmt.Sprintf("%d %s", n, ui.Word(n == 1, "entry", "entries")) }

func (e summaryEvent) Text() string {
	s := fmt.Sprintf(
		"%s, %s in %v: %s",
		entries(e.Copied),
		ui.Amount(e.Octets),
		ui.Round(e.Elapsed),
		ui.Rate(int(e.Octets), e.Elapsed),
	)
	if e.dry {
		s = fmt.Sprintf("would copy %s, %s", entries(e.Copied), ui.Amount(e.Octets))
	}
	if e.Had > 0 {
		s += fmt.Sprintf("; %s were there from an earlier run", ui.Amount(e.Had))
	}
	if e.Unchanged > 0 {
		s += fmt.Sprintf("; %d unchanged", e.Unchanged)
	}
	if e.Failed > 0 {
		s += fmt.Sprintf("; %d failed", e.Failed)
	}
	return s
}

// report is what the client tells, and what it counts.
type report struct {
	out     *ui.Output
	verbose bool
	dry     bool
	start   time.Time

	mu       sync.Mutex
	sum      summaryEvent
	vanished uint64 // of the failed: those that went
	bar      *progressbar.ProgressBar
	total    int64
}

// newReport begins; the bar is there on terminals only.
func newReport(out *ui.Output, verbose, dry bool) *report {
	r := &report{out: out, verbose: verbose, dry: dry, start: time.Now()}
	if out.Terminal && !out.JSON && !dry {
		r.bar = progressbar.NewOptions64(
			1,
			progressbar.OptionSetWriter(
				out.Stdout,
			),
			progressbar.OptionShowBytes(true),
			progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30),
			progressbar.OptionShowTotalBytes(true),
		)
	}
	return r
}

// expect adds to what is to be copied.
func (r *report) expect(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += n
	if r.bar != nil {
		r.bar.ChangeMax64(max(r.total, 1))
	}
}

// progress counts n octets of a file, of which some were moved, or were there already;
// the others are holes.
func (r *report) progress(n, moved, had int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Octets += moved
	r.sum.Had += had
	r.show(n)
}

func (r *report) show(n int64) {
	if r.bar != nil {
		_ = r.bar.Add64(n)
	}
}

// copied tells of an entry that is in place; n octets of it were not told before.
func (r *report) copied(it item, n int64, resumed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Copied++
	if it.to.Kind != tree.File || it.to.Same != "" {
		n = 0
	}
	r.sum.Octets += n
	r.show(n)
	r.tell(it, ui.Word(r.dry, "would_copy", ui.Word(resumed, "resumed", "copied")), nil)
}

func (r *report) unchanged(it item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Unchanged++
	if it.to.Kind == tree.File {
		r.show(it.to.Size)
	}
	r.tell(it, "unchanged", nil)
}

func (r *report) failed(it item, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Failed++
	if errors.Is(err, fs.ErrNotExist) {
		r.vanished++
	}
	r.tell(it, "failed", err)
}

// tell emits an event, which text has only for failures and where it is asked for.
func (r *report) tell(it item, action string, err error) {
	if err == nil && !r.out.JSON && !r.verbose && !r.dry {
		return
	}
	e := fileEvent{Path: it.from.Path, To: it.to.Path, Kind: it.to.Kind.String(), Octets: it.to.Size, Action: action}
	if err != nil {
		e.Error = err.Error()
	}
	if r.bar != nil {
		_ = r.bar.Clear()
	}
	if err != nil && !r.out.JSON {
		r.out.Note(e.Text())
		return
	}
	r.out.Emit(e)
}

// note tells the person of something that is no failure yet.
func (r *report) note(err error) {
	if !r.out.JSON {
		r.out.Note("iwarp cp: " + err.Error())
	}
}

// end tells the last line, and returns the command's error.
func (r *report) end(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		_ = r.bar.Finish()
	}
	r.sum.Elapsed, r.sum.dry = time.Since(r.start), r.dry
	code := 0
	switch {
	case err != nil:
		code = exitCodeOf(err)
	case r.sum.Failed > r.vanished:
		code = exitPartial
	case r.sum.Failed > 0:
		code = exitVanished
	}
	r.sum.ExitCode = code
	if err == nil || r.sum.Copied+r.sum.Failed > 0 {
		r.out.Emit(r.sum)
	}
	if code == 0 {
		return nil
	}
	if err == nil {
		err = ui.ErrReported
	}
	return &ui.ExitError{Code: code, Err: err}
}

// exitCodeOf returns the exit code of an error that ended all.
func exitCodeOf(err error) int {
	var broken *linkError
	var fatal errFatal
	var said *serverError
	var access *accessError
	switch {
	case errors.Is(err, context.Canceled):
		return exitStopped
	case errors.As(err, &access), errors.Is(err, wire.ErrToken):
		return exitAccess
	case errors.Is(err, errSilent), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &fatal):
		return exitProtocol
	case errors.As(err, &said):
		return exitPartial
	case errors.As(err, &broken), errors.Is(err, io.ErrUnexpectedEOF):
		return exitNetwork
	}
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return exitFiles
	}
	return exitNetwork
}

// accessError is an error of the two ends' knowing each other.
type accessError struct{ err error }

func (e *accessError) Error() string { return e.err.Error() }
func (e *accessError) Unwrap() error { return e.err }
