// Command iwarp shows and tries out iWARP, RDMA over TCP, in user space. See
// "iwarp --help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	return cli.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}
