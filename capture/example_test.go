package capture_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-iwarp/iwarp/capture"
)

// Record a connection, and read the recording.
func Example() {
	var file bytes.Buffer
	rec, err := capture.NewRecorder(&file, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	a, b := net.Pipe()
	c := rec.Conn(a)
	go func() { _, _ = io.ReadFull(b, make([]byte, 5)) }()
	if _, err := c.Write([]byte("hello")); err != nil {
		fmt.Println(err)
		return
	}
	if err := rec.Close(); err != nil {
		fmt.Println(err)
		return
	}

	r, err := capture.NewReader(&file, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		var p capture.Packet
		if err := r.Next(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			fmt.Println("cut or corrupt:", err)
			return
		}
		fmt.Println(p.Length, "octets")
	}
	fmt.Println(r.Info().Format)
	// Output:
	// 48 octets
	// 48 octets
	// 40 octets
	// 45 octets
	// pcapng
}
