package mpa_test

import (
	"net"
	"runtime"
	"testing"
	"weak"

	"github.com/go-iwarp/iwarp/mpa"
)

// A batch that will never go does not keep the memory that it refers to.
func TestFailedBatchIsForgotten(t *testing.T) {
	a, b := net.Pipe()
	c := mpa.NewConn(a, mpa.Params{Initiator: true, CRC: true}, nil)
	p := func() weak.Pointer[byte] {
		payload := make([]byte, 60000)
		if err := c.Queue([]byte("header"), [][]byte{payload}, true); err != nil {
			t.Fatal(err)
		}
		_ = b.Close()
		if done, err := c.Flush(true); done || err == nil {
			t.Fatalf("Flush to a closed pipe: %v, %v", done, err)
		}
		return weak.Make(&payload[0])
	}()
	for range 10 {
		if runtime.GC(); p.Value() == nil {
			break
		}
	}
	if p.Value() != nil {
		t.Error("the payload is still referenced")
	}
	runtime.KeepAlive(c)
}
