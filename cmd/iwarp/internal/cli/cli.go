// Package cli is the command iwarp, apart from main. Each command is a struct that
// kong fills in from the command line and whose Run method does the work; what a
// user can set wrong is refused while parsing, with a message that names the flag,
// the value and the rule.
package cli

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
)

const description = `iWARP (RDMA over TCP) in user space: see what it does, and talk to other implementations of it.

Exit codes: 0 success, 1 the run failed, 2 the command line is wrong and nothing was run.`

// grammar is the command line.
type grammar struct {
	Bench   benchCmd   `cmd:"" help:"Measure bandwidth, latency and message rate, beside plain TCP."`
	Conform conformCmd `cmd:"" help:"Test an iWARP endpoint against the RFCs, with good and hostile peers."`
	Demo    demoCmd    `cmd:"" help:"Show what RDMA does, with both ends in this process."`
	Inspect inspectCmd `cmd:"" help:"Tell from a capture what happened on iWARP connections, and who broke which rule."`
	Ping    pingCmd    `cmd:"" help:"Exchange data with a peer, as client or server of the protocol of Linux's rping."`
	Version versionCmd `cmd:"" help:"Show the version and the RFCs that are supported."`
}

// errReported is what a command returns when it has failed and has said why.
var errReported = errors.New("failed")

// Main runs the command line args, without the name of the program, and gives the
// exit code. The end of ctx (a signal) ends a run in good order.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := newOutput(stdout, stderr)
	helpCode, helped := ExitOK, false
	switch {
	case len(args) == 0:
		args, stdout, helpCode = []string{"--help"}, stderr, ExitUsage
	case args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	}
	parser, err := kong.New(&grammar{},
		kong.Name("iwarp"), kong.Description(description),
		kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: 100, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{startupGroup}),
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

// usage reports a wrong command line. There are no parsed flags to ask, so --json
// is looked for in args.
func usage(out *output, args []string, err error) int {
	out.json = slices.Contains(args, "--json") || slices.Contains(args, "--json=true")
	out.emit(errorEvent{Error: err.Error(), ExitCode: ExitUsage})
	if !out.json {
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
func exitCode(out *output, err error) int {
	switch lost := out.lost(); {
	case err == nil && lost != nil:
		fmt.Fprintln(out.stderr, "iwarp: standard output:", lost)
	case err == nil:
		return ExitOK
	case errors.Is(err, errRuleBroken):
		return ExitRuleBroken
	case !errors.Is(err, errReported):
		e := newErrorEvent(err)
		e.ExitCode = ExitFailed
		out.emit(e)
	}
	return ExitFailed
}
