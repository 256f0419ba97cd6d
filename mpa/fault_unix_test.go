//go:build unix

package mpa

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/protocol"
)

// missing is memory of which only the first page is there.
func missing(t *testing.T, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, n+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	lose(t, mem)
	return mem
}

// lose takes away all but the first page.
func lose(t *testing.T, mem []byte) {
	t.Helper()
	if err := unix.Mprotect(mem[os.Getpagesize():], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
}

// tryAdd is Add under a guard.
func tryAdd(f *sender, header []byte, payload [][]byte, stable bool) (err error) {
	defer func(was bool) {
		fault.Unguard(was)
		if e := fault.Of(recover()); e != nil {
			err = e
		}
	}(fault.Guard())
	return f.add(header, payload, stable)
}

// An FPDU whose payload is not there leaves the batch as it was: what was added
// before and what is added after it goes out, and nothing else.
func TestAddOfMissingMemory(t *testing.T) {
	header := bytes.Repeat([]byte{7}, 18)
	good, large := bytes.Repeat([]byte{1}, 900), bytes.Repeat([]byte{2}, gatherMin)
	mem, page := missing(t, 64<<10), os.Getpagesize()
	for _, markers := range []bool{false, true} {
		for _, crc := range []bool{false, true} {
			for _, stable := range []bool{false, true} {
				for _, align := range []Align{AlignOff, AlignAuto, AlignSegments, AlignStrict} {
					for name, bad := range map[string][][]byte{
						"small":                   {mem[page:][:100]},
						"partly":                  {mem[page-600:][:1200]},
						"large":                   {mem[:gatherMin+100]},
						"a small one behind":      {large, mem[page:][:100]},
						"a large one behind":      {good, large, mem[:gatherMin]},
						"a large one behind that": {large, mem[page:][:2], large},
					} {
						for before := range 3 {
							f := &sender{framer: framer{marked: markers, crc: crc}, batch: batch{mem: commonMemory}}
							f.setSegments(1448, align)
							d := Deframer{Markers: markers, CRC: crc}
							var want [][]byte
							add := func(payload ...[]byte) {
								t.Helper()
								if err := f.add(header, payload, stable); err != nil {
									t.Fatal(err)
								}
								want = append(want, append(bytes.Clone(header), bytes.Join(payload, nil)...))
							}
							for i := range before {
								add(good[:100*(i+1)])
							}
							left, size := f.batch.left, len(want)
							err := tryAdd(f, header, bad, stable)
							var gone *fault.Error
							if !errors.As(err, &gone) &&
								!(stable && !crc && !markers && (name == "large" || name == "a large one behind")) {
								t.Fatalf("%s: %v", name, err)
							}
							if gone == nil {
								continue // it is the kernel that looks at it
							}
							if f.batch.left != left || len(want) != size {
								t.Fatalf("%s: %d octets, %d before", name, f.batch.left, left)
							}
							add(good[:20]) // in the same memory
							add(good, large)
							add(good[:10])
							var stream []byte
							for f.batch.left > 0 {
								pieces, _, _, _ := f.pending()
								n := 0
								for _, p := range pieces {
									stream = append(stream, p...)
									n += len(p)
								}
								f.advance(n)
							}
							for i, w := range want {
								got, n, _, err := d.Next(stream)
								if err != nil || !bytes.Equal(got, w) {
									t.Fatalf("%s, markers %t, CRC %t, stable %t, align %v, after %d: FPDU %d is "+
										"wrong: %v",
										name, markers, crc, stable, align, before, i, err)
								}
								stream = stream[n:]
							}
							if len(stream) > 0 {
								t.Fatalf("%s: %d octets more", name, len(stream))
							}
						}
					}
				}
			}
		}
	}
}

// tcpConns are the two ends of a connection over TCP.
func tcpConns(t *testing.T) (a, b *Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ch := make(chan net.Conn, 1)
	go func() { c, _ := ln.Accept(); ch <- c }()
	x, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	y := <-ch
	t.Cleanup(func() { x.Close(); y.Close() })
	return NewConn(x, Params{Initiator: true, CRC: true}, nil), NewConn(y, Params{CRC: true}, nil)
}

// Memory that goes away after its CRC was taken is found missing by the kernel. That
// is final: part of an FPDU may have gone.
func TestFlushOfMissingMemory(t *testing.T) {
	for _, wait := range []bool{false, true} {
		a, _ := tcpConns(t)
		mem, err := unix.Mmap(-1, 0, 60<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(mem) })
		if err := a.Queue(make([]byte, 18), [][]byte{mem}, true); err != nil {
			t.Fatal(err)
		}
		lose(t, mem)
		for i := range 2 {
			done, err := a.Flush(wait)
			for !wait && !done && err == nil && !a.canTry() {
				done, err = a.Flush(true) // conns that cannot tell write nothing
			}
			var perr *protocol.Error
			var gone *fault.Error
			if !errors.As(err, &perr) || perr.Code != protocol.MPALocalCatastrophic || !errors.As(err, &gone) ||
				!gone.Within(mem) {
				t.Errorf("Flush %d, wait %t: %t, %v", i, wait, done, err)
			}
		}
		if err := a.Queue([]byte{1}, nil, true); err == nil {
			t.Error("it goes on")
		}
	}
}

// A function that panics loses nothing of what comes behind the ULPDU in hand.
func TestReceiveAfterPanic(t *testing.T) {
	a, b := tcpConns(t)
	for i := range byte(4) {
		if err := a.Queue([]byte{i}, nil, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Flush(true); err != nil {
		t.Fatal(err)
	}
	var got []byte
	orders := ""
	receive := func() {
		defer func() { _ = recover() }()
		fn := func(order uint64, ulpdu []byte) error {
			got = append(got, ulpdu...)
			orders += fmt.Sprint(order)
			if ulpdu[0]%2 == 1 {
				panic("mine")
			}
			return nil
		}
		if len(got) < 2 && b.sock != nil {
			for some := false; !some; {
				some, _ = b.TryReceive(fn)
			}
			return
		}
		_ = b.Receive(fn)
	}
	for len(got) < 4 {
		receive()
	}
	if string(got) != "\x00\x01\x02\x03" || orders != "0123" || b.Stats().FPDUsReceived != 4 {
		t.Errorf("got %x in order %s, counted %d", got, orders, b.Stats().FPDUsReceived)
	}
	// A poll that panicked does not make the next Receive a poll.
	if b.in.poll {
		t.Error("Receive polls")
	}
}
