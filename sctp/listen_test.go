package sctp

import (
	"context"
	"encoding/binary"
	"net"
	"testing"
	"time"
)

// hello makes an INIT with an initiate tag of its own.
func hello(tag uint32) []byte {
	p := make([]byte, commonHeaderLen, 64)
	binary.BigEndian.PutUint16(p, 5000)
	binary.BigEndian.PutUint16(p[2:], 5000)
	p = append(p, chunkINIT, 0, 0, initLen)
	p = binary.BigEndian.AppendUint32(p, tag)
	p = append(p, 0, 16, 0, 0, 0, 10, 0, 10)
	p = binary.BigEndian.AppendUint32(p, 1)
	return adapt(p, IndicationDDP, 10)
}

// Handshakes that are begun and not gone on with take a bounded number of places, and the place of nobody
// who goes on.
func TestHalfOpen(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 4
	il, err := NewListener(pc, nil, &Config{MaxHalfOpen: most})
	if err != nil {
		t.Fatal(err)
	}
	defer il.Close()
	for i := range 20 {
		nc, err := net.Dial("udp", pc.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write(hello(uint32(i + 1))); err != nil {
			t.Fatal(err)
		}
		_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		b := make([]byte, 1000)
		if n, err := nc.Read(b); err != nil || startup(b[:n]) == nil {
			t.Fatalf("INIT %d has no INIT ACK: % x, %v", i, b[:n], err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a, err := Associate(ctx, "udp", pc.LocalAddr().String(), nil)
	if err != nil {
		t.Fatalf("an association after all these: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// An association without a session ends by itself.
func TestIdle(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	il, err := NewListener(pc, nil, &Config{IdleTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer il.Close()
	a, err := Associate(t.Context(), "udp", pc.LocalAddr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Done():
	case <-time.After(20 * time.Second):
		t.Error("it has not")
	}
	_ = a.Close()
}
