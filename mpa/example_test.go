package mpa_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// Two ends start MPA and exchange a ULPDU each. DDP segments would be in their
// place.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, server := net.Pipe()

	go func() {
		in, err := mpa.ReadRequest(ctx, server, nil)
		if err != nil {
			return
		}
		conn, err := in.Accept(ctx, &mpa.Options{IRD: 4, ORD: 4, PrivateData: []byte("welcome")})
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.Receive(func(_ uint64, ulpdu []byte) error {
			_ = conn.Queue(nil, [][]byte{[]byte("you said "), ulpdu}, false)
			return nil
		})
		_, _ = conn.Flush(true)
	}()

	conn, err := mpa.Initiate(ctx, client, &mpa.Options{IRD: 16, ORD: 16})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	p := conn.Params()
	fmt.Printf("revision %d, CRC %t, ORD %d, private data %q\n", p.Revision, p.CRC, p.ORD, p.PrivateData)

	_ = conn.Queue([]byte("hello"), nil, true)
	if _, err := conn.Flush(true); err != nil {
		fmt.Println(err)
		return
	}
	err = conn.Receive(func(_ uint64, ulpdu []byte) error {
		fmt.Printf("%s\n", ulpdu)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// revision 2, CRC true, ORD 4, private data "welcome"
	// you said hello
}

// A Responder can look at the Request before it decides. After a refusal the TCP
// connection still stands.
func ExampleIncoming_Reject() {
	ctx := context.Background()
	client, server := net.Pipe()
	go func() {
		in, err := mpa.ReadRequest(ctx, server, nil)
		if err != nil {
			return
		}
		if string(in.PrivateData()) != "password" {
			_ = in.Reject(ctx, nil, []byte("who are you?"))
		}
		_, _ = server.Write([]byte("try again\n"))
	}()

	_, err := mpa.Initiate(ctx, client, &mpa.Options{PrivateData: []byte("guess")})
	var rej *mpa.RejectError
	if errors.As(err, &rej) {
		fmt.Printf("refused: %s\n", rej.PrivateData)
	}
	b := make([]byte, 100)
	n, _ := client.Read(b)
	fmt.Printf("%s", b[:n])
	// Output:
	// refused: who are you?
	// try again
}

// The engine works on octets alone.
func ExampleDeframer() {
	var framer iwarptest.Framer
	stream := append(framer.Frame([]byte("first")), framer.Frame([]byte("second"))...)
	stream[len(stream)-1] ^= 1 // an error on the way

	deframer := mpa.Deframer{CRC: true}
	for {
		ulpdu, n, need, err := deframer.Next(stream)
		if err != nil {
			fmt.Println(err.Code == protocol.MPACRC, err.Code)
			return
		}
		if n == 0 {
			fmt.Println("more octets needed:", need)
			return
		}
		fmt.Printf("%s in an FPDU of %d octets\n", ulpdu, n)
		stream = stream[n:]
	}
	// Output:
	// first in an FPDU of 12 octets
	// true MPA: CRC mismatch (2/0/02)
}

func ExampleMULPDU() {
	fmt.Println(mpa.MULPDU(1460, false), mpa.MULPDU(1460, true))
	// Output: 1454 1442
}
