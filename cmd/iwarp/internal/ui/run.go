// Package ui is what the commands share: how a command line is run and ends, where
// output goes and how events look in it, and the types of flags.
//
// Each command is a struct that kong fills in from the command line and whose Run
// method does the work. What a user can set wrong is refused while parsing, with a
// message that names the flag, the value and the rule.
package ui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The exit codes of the command.
const (
	ExitOK     = 0 // all went well
	ExitFailed = 1 // the run failed
	ExitUsage  = 2 // the command line is wrong; nothing was run

	ExitRuleBroken = 3 // "iwarp inspect --verdict" has found a broken rule

	ExitEndpointGone = 4 // the endpoint of "iwarp conform" has gone during the run
)

// ErrReported is what a command returns when it has failed and has said why.
var ErrReported = errors.New("failed")

// RunLine runs the command line args, without the name of the program, and returns
// the exit code. The end of ctx (a signal) ends a run in good order. grammar points
// at the struct of the commands, as kong has it.
func RunLine(ctx context.Context, grammar any, description string, args []string, stdout, stderr io.Writer) int {
	out := NewOutput(stdout, stderr)
	helpCode, helped := ExitOK, false
	switch {
	case len(args) == 0:
		args, stdout, helpCode = []string{"--help"}, stderr, ExitUsage
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	parser, err := kong.New(grammar,
		kong.Name("iwarp"), kong.Description(description),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{startupGroup, accessGroup}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(out),
	)
	if err != nil {
		fmt.Fprintln(stderr, "iwarp:", err)
		return ExitUsage
	}
	kctx, err := parser.Parse(args)
	switch {
	case helped: // kong parses on after --help, and may complain
		return helpCode
	case err != nil:
		return usage(out, args, err)
	}
	return exitCode(out, kctx.Run())
}

// ExitError is an error of a command that has exit codes of its own. An Err of
// ErrReported has been told already.
type ExitError struct {
	Code int
	Err  error
}

// Error returns the text of Err.
func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// ErrRuleBroken makes the command end with ExitRuleBroken.
var ErrRuleBroken = errors.New("a rule was broken")

// usage reports a wrong command line. There are no parsed flags to ask, so --json
// is looked for in args.
func usage(out *Output, args []string, err error) int {
	out.JSON = slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
	out.Emit(ErrorEvent{Error: err.Error(), ExitCode: ExitUsage})
	if !out.JSON {
		help := "iwarp --help"
		var perr *kong.ParseError
		if errors.As(err, &perr) && perr.Context != nil && perr.Context.Selected() != nil {
			help = "iwarp " + strings.Fields(perr.Context.Command())[0] + " --help"
		}
		fmt.Fprintf(out.stderr, "Try %q.\n", help)
	}
	return ExitUsage
}

// exitCode reports the end of a command and gives its exit code.
func exitCode(out *Output, err error) int {
	switch lost := out.lost(); {
	case err == nil && lost != nil:
		fmt.Fprintln(out.stderr, "iwarp: standard output:", lost)
	case err == nil:
		return ExitOK
	case errors.Is(err, ErrRuleBroken):
		return ExitRuleBroken
	}
	code := ExitFailed
	if own := (*ExitError)(nil); errors.As(err, &own) {
		code = own.Code
	}
	if err != nil && !errors.Is(err, ErrReported) {
		e := NewErrorEvent(err)
		e.ExitCode = code
		out.Emit(e)
	}
	return code
}

// Or returns what v points at, or d without a v.
func Or[T any](v *T, d T) T {
	if v == nil {
		return d
	}
	return *v
}

// CauseOf puts the reason why ctx ended in place of an error that says only that
// it did.
func CauseOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return cause
	}
	return err
}
