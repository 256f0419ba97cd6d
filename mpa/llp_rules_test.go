package mpa

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

// What DDP may rely on (RFC 5041 section 3), with the parameters that two ends
// without wishes agree on: segments arrive whole and one by one, and a FIN is not
// taken for a loss.
// Shows: DDP-3-04, DDP-3-07, DDP-3-09
func TestSegmentsForDDP(t *testing.T) {
	a, b := memPipe()
	x, y := defaultConns(t, a, b)
	set := ulpduSet()
	go func() {
		send(t, x, set...)
		_ = x.CloseWrite()
	}()
	for i, got := range collect(t, y, len(set)) {
		if !bytes.Equal(got, set[i]) {
			t.Errorf("segment %d of %d octets came as %d octets", i, len(set[i]), len(got))
		}
	}
	if err := y.Receive(func(uint64, []byte) error { return nil }); !errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("after the FIN: %v, want EOF", err)
	}
	send(t, y, []byte("the other half is open still"))
	_ = y.Abort()
	for {
		err := x.Receive(func(uint64, []byte) error { return nil })
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a reset looks like a FIN: %v", err)
		}
		wantCode(t, err, protocol.MPAConnectionLost)
		break
	}
}

// A segment that cannot be transferred is reported, and so is every later one.
// Shows: DDP-3-03, MPA-8-01, DDP-7-01
func TestFailureIsReported(t *testing.T) {
	a, b := memPipe()
	x, _ := defaultConns(t, a, b)
	_ = b.Abort()
	var err error
	for range 100 {
		if err = x.Queue([]byte("header"), [][]byte{make([]byte, 1000)}, true); err != nil {
			t.Fatalf("Queue: %v; Flush has not said so", err)
		}
		var done bool
		if done, err = x.Flush(true); err != nil {
			if done {
				t.Error("Flush says that all has gone, and an error")
			}
			break
		}
	}
	wantCode(t, err, protocol.MPAConnectionLost)
	if again := x.Queue([]byte("header"), nil, true); !errors.Is(again, err) {
		t.Errorf("Queue after the error: %v", again)
	}
	if done, again := x.Flush(true); done || !errors.Is(again, err) {
		t.Errorf("Flush after the error: %t, %v", done, again)
	}
}

// Two ends without wishes have a CRC32c over every octet of a segment.
// Shows: DDP-3-06, MPA-4.4-03
func TestDigestOfSegments(t *testing.T) {
	p := defaultParams(t)
	for i := range 40 {
		for bit := range 8 {
			f := framer{marked: p.SendMarkers, crc: p.CRC}
			wire := f.append(nil, pattern(34, 1))
			if len(wire) != 40 {
				t.Fatal(len(wire))
			}
			wire[i] ^= 1 << bit
			d := Deframer{Markers: p.RecvMarkers, CRC: p.CRC}
			// A length that claims more leaves the frame unfinished.
			if ulpdu, n, need, err := d.Next(wire); err == nil && need <= len(wire) {
				t.Fatalf("octet %d, bit %d: a segment of %d octets came out, %d used", i, bit, len(ulpdu), n)
			}
		}
	}
}

// defaultParams are those of a connection between two ends that set nothing.
func defaultParams(t *testing.T) Params {
	t.Helper()
	req, err := NewRequest(nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, p, err := Answer(&req, nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Conclude(&req, &reply, nil)
	if err != nil || !p.CRC || !q.CRC {
		t.Fatalf("without wishes: CRC %t and %t, %v", p.CRC, q.CRC, err)
	}
	return q
}

func defaultConns(t *testing.T, a, b *memConn) (x, y *Conn) {
	p := defaultParams(t)
	q := p
	q.Initiator = false
	return NewConn(a, p, nil), NewConn(b, q, nil)
}
