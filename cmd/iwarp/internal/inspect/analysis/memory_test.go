package analysis_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// atEnd tells when a file has been read to its end, before its connections are
// closed.
type atEnd struct {
	r  io.Reader
	at func()
}

func (a *atEnd) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if errors.Is(err, io.EOF) && a.at != nil {
		a.at()
		a.at = nil
	}
	return n, err
}

// plays are connections that take memory in different ways, most of it for few
// octets of a file.
var plays = map[string]func(k *talk){
	"handshake":      func(k *talk) { k.open() },
	"another stream": func(k *talk) { k.open(); k.send(0, []byte("GET / HTTP/1.1")) },
	"startup":        func(k *talk) { k.start(0, 0) },
	"private data": func(k *talk) {
		k.open()
		k.send(0, iwarptest.Request(0, 1, make([]byte, 512)))
		k.send(1, iwarptest.Reply(0, 1, make([]byte, 512)))
	},
	"a Send": func(k *talk) {
		k.start(0, 0)
		k.send(0, (&iwarptest.Framer{NoCRC: true}).Frame(iwarptest.Send(1, []byte("hello"))))
	},
	"broken rules": func(k *talk) {
		k.start(0, 0)
		f := &iwarptest.Framer{NoCRC: true}
		for op := range uint8(16) {
			k.send(0,
				f.Frame(iwarptest.Untagged(iwarptest.UntaggedHeader{
					Opcode: op, Last: true, Invalidate: 5, QN: uint32(op), MSN: 7, MO: 9,
				},
					[]byte("xy"))))
			k.send(1, f.Frame(iwarptest.Tagged(op, op%2 == 0, 5, 1<<63, []byte("xy"))))
		}
	},
	"out of order": func(k *talk) {
		k.start(0, 0)
		for range 20 {
			k.skip(0, []byte{0})
			k.send(0, []byte{1})
		}
	},
	"requests, all but one answered": func(k *talk) {
		k.start(0, 0)
		f, g := &iwarptest.Framer{NoCRC: true}, &iwarptest.Framer{NoCRC: true}
		for n := range uint32(200) {
			k.send(0, f.Frame(iwarptest.ReadRequest(n+1, 1, uint64(n), 1, 4, 5)))
		}
		for n := range uint32(199) {
			k.send(1, g.Frame(iwarptest.ReadResponse(1, uint64(n), []byte{1})))
		}
	},
	"many latencies": func(k *talk) {
		k.start(0, 0)
		f, g := &iwarptest.Framer{NoCRC: true}, &iwarptest.Framer{NoCRC: true}
		for n := range uint32(1030) {
			k.send(0, f.Frame(iwarptest.ReadRequest(n+1, 1, uint64(n), 1, 4, 5)))
			k.send(1, g.Frame(iwarptest.ReadResponse(1, uint64(n), []byte{1})))
		}
	},
	"ended": func(k *talk) { k.start(0, 0); k.close() },
}

// conversations makes a file of so many connections.
func conversations(play func(k *talk), conns int) []byte {
	out := newPcapOut(binary.LittleEndian, true, 1)
	for n := range conns {
		k := newTalk(out)
		k.port[0] = uint16(1000 + n)
		play(k)
	}
	return out.b
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Each connection is accounted for with at least what it takes, whatever it has done.
func TestMemoryIsAccountedFor(t *testing.T) {
	const conns = 100
	for name, play := range plays {
		t.Run(name, func(t *testing.T) {
			file := conversations(play, conns)
			r := &atEnd{r: bytes.NewReader(file)}
			before := heap()
			rd, err := analysis.Open(r, &analysis.ReaderOptions{NoAnomalies: true})
			if err != nil {
				t.Fatal(err)
			}
			var used, accounted, n int
			r.at = func() {
				used = heap() - before
				accounted, n = analysis.Memory(rd)
			}
			for err == nil {
				_, err = rd.Next()
			}
			const fixed = 700 << 10 // the buffer of the file, the queue of events
			t.Logf("%d connections: %d octets each are used, %d accounted for", n, (used-fixed)/conns, accounted/conns)
			if n != conns || used > accounted+fixed {
				t.Errorf("%d connections with %d octets of heap, %d accounted for", n, used, accounted)
			}
			runtime.KeepAlive(file)
			if accounted, n := analysis.Memory(rd); accounted != 0 || n != 0 {
				t.Errorf("at the end: %d octets of %d connections", accounted, n)
			}
		})
	}
}

// A reader keeps to its bound, with a file of 9,000 connections too: no more than
// half of it is in use, so that garbage has its place.
func TestMemoryOfManyConnections(t *testing.T) {
	for name, play := range plays {
		if name == "many latencies" || name == "requests, all but one answered" {
			continue // they take long
		}
		t.Run(name, func(t *testing.T) {
			const limit = 8 << 20
			file := conversations(play, 9000)
			most, evicted := 0, 0
			rd, err := analysis.Open(bytes.NewReader(file),
				&analysis.ReaderOptions{MaxMemory: limit, NoAnomalies: true})
			if err != nil {
				t.Fatal(err)
			}
			before := heap()
			for n := 0; err == nil; n++ {
				var e analysis.Event
				e, err = rd.Next()
				if c, ok := e.(*analysis.Closed); ok && c.How == "evicted" {
					evicted++
				}
				accounted, _ := analysis.Memory(rd)
				most = max(most, accounted)
				if n%4096 == 4095 {
					if used := heap() - before; used > limit {
						t.Fatalf("%d octets of heap with a limit of %d", used, limit)
					}
				}
			}
			t.Logf("%d octets of file, %d at most accounted for, %d connections given up", len(file), most, evicted)
			if most > limit/2 {
				t.Errorf("%d octets accounted for with a limit of %d", most, limit)
			}
			runtime.KeepAlive(file)
		})
	}
}
