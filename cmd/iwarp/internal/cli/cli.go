// Package cli is the command line of iwarp: the tree of its commands, each of which is
// a package beside this one.
package cli

import (
	"context"
	"io"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/bench"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/demo"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ping"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/proxy"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/top"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/verbs"
)

const description = `iWARP (RDMA over TCP) in user space: see what it does, and talk to other implementations of it.

Exit codes: 0 success, 1 the run failed, 2 the command line is wrong and nothing was run.`

// grammar is the command line, in the order in which a newcomer needs it.
type grammar struct {
	Demo    demo.Command    `cmd:"" help:"Show what RDMA does, with both ends in this process."`
	Ping    ping.Command    `cmd:"" help:"Exchange data with a peer, as client or server of the protocol of Linux's rping."`
	Bench   bench.Command   `cmd:"" help:"Measure bandwidth, latency and message rate, beside plain TCP."`
	Serve   filecopy.Serve  `cmd:"" help:"Serve a directory to \"iwarp cp\"."`
	Cp      filecopy.Copy   `cmd:"" help:"Copy files and directories to or from a host that runs \"iwarp serve\"."`
	Proxy   proxy.Command   `cmd:"" help:"Carry a program's TCP over iWARP; or stand between two iWARP ends and make faults."`
	Verbs   verbs.Command   `cmd:"" help:"Run a program of libibverbs, librdmacm or rsockets on iWARP in user space (Linux)."`
	Inspect inspect.Command `cmd:"" help:"Tell from a capture what happened on iWARP connections, and who broke which rule."`
	Conform conform.Command `cmd:"" help:"Test an iWARP endpoint against the RFCs, with good and hostile peers."`
	Top     top.Command     `cmd:"" help:"Show the connections of a running program, live."`
	Version versionCmd      `cmd:"" help:"Show the version and the RFCs that are supported."`
}

// Main runs the command line args, without the name of the program, and returns the
// exit code. The end of ctx (a signal) ends a run in good order.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return ui.RunLine(ctx, &grammar{}, description, args, stdout, stderr)
}
