// Command iwarp-sctp is a gateway from MPA over TCP to SCTP, so that iwarp conform can play its cases
// against a peer over SCTP:
//
//	iwarp-sctp [-listen ADDRESS] NETWORK ADDRESS
//
// NETWORK is udp (SCTP in user space over UDP) or sctp (that of Linux' kernel).
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"

	"github.com/go-iwarp/iwarp/sctp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:4420", "`address` of TCP to listen on")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: iwarp-sctp [-listen ADDRESS] NETWORK ADDRESS")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "iwarp-sctp:", run(*listen, flag.Arg(0), flag.Arg(1)))
	os.Exit(1)
}

// run serves until it cannot, and says why.
func run(listen, network, address string) error {
	ctx := context.Background()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("MPA on %v goes to %s %s over SCTP\n", l.Addr(), network, address)
	return (&sctp.Gateway{Network: network, Address: address}).Serve(ctx, l)
}
