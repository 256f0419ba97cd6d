// Command rpc calls a procedure over iWARP: net/rpc with another listener and another dialer.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/rpc"
	"os"

	"github.com/go-iwarp/iwarp/stream"
)

// Arith is the service.
type Arith struct{}

// Args are what a procedure of it takes.
type Args struct{ A, B int }

// Multiply multiplies.
func (Arith) Multiply(args *Args, product *int) error { //nolint:unparam // net/rpc wants the error
	*product = args.A * args.B
	return nil
}

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	ln, err := stream.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	srv := rpc.NewServer()
	if err := srv.Register(Arith{}); err != nil {
		return err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go srv.ServeConn(c)
		}
	}()

	c, err := stream.Dial(context.Background(), "tcp", ln.Addr().String(), nil)
	if err != nil {
		return err
	}
	client := rpc.NewClient(c)
	var product int
	if err := client.Call("Arith.Multiply", &Args{6, 7}, &product); err != nil {
		return err
	}
	fmt.Fprintf(w, "6 * 7 = %d\n", product)
	if err := client.Close(); err != nil {
		return err
	}
	return ln.Close()
}
