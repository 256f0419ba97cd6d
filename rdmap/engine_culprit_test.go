package rdmap_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// The request that the peer's Terminate echoes has the peer's error; what stood
// before it and was not answered, and all behind it, is flushed.
//
// Shows: RDMAP-6.2.1-02
func TestCulpritOfATerminate(t *testing.T) {
	atomic := rdmap.SendWR{ID: 2, Op: rdmap.OpFetchAdd, Remote: rdmap.RemoteBuffer{STag: 7}}
	write := rdmap.SendWR{
		ID: 2, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: 7, TO: 100}, SG: [][]byte{make([]byte, 300)},
	}
	for _, c := range []struct {
		name   string
		second rdmap.SendWR
		echo   func(sent [][]byte) []byte
		want   string // completions: "!" is flushed, "?" has an error of its own
	}{
		{
			name: "a Read", second: read(2, make([]byte, 1)), echo: func(sent [][]byte) []byte { return sent[1] },
			want: "1! 2? 3! 4!",
		},
		{
			name: "the first Read", second: read(2, make([]byte, 1)),
			echo: func(sent [][]byte) []byte { return sent[0] }, want: "1? 2! 3! 4!",
		},
		{name: "an atomic", second: atomic, echo: func(sent [][]byte) []byte { return sent[1] }, want: "1! 2? 3! 4!"},
		{
			name: "a Send", second: send(2, "x"), echo: func(sent [][]byte) []byte { return sent[1] },
			want: "1! 2? 3! 4!",
		},
		{
			name: "a Write's second segment", second: write, echo: func(sent [][]byte) []byte { return sent[2] },
			want: "1! 2? 3! 4!",
		},
		{
			name:   "an empty Write",
			second: rdmap.SendWR{ID: 2, Op: rdmap.OpWrite, Remote: rdmap.RemoteBuffer{STag: 7, TO: 9}},
			echo:   func(sent [][]byte) []byte { return sent[1] }, want: "1! 2? 3! 4!",
		},
		{
			name: "a Write of another STag", second: write,
			echo: func([][]byte) []byte { return iwarptest.Write(8, 100, nil) }, want: "1! 2! 3! 4!",
		},
		{
			name: "a Write beyond the end", second: write,
			echo: func([][]byte) []byte { return iwarptest.Write(7, 400, nil) }, want: "1! 2! 3! 4!",
		},
		{
			name: "a Response", second: write,
			echo: func([][]byte) []byte { return iwarptest.ReadResponse(7, 100, nil) }, want: "1! 2! 3! 4!",
		},
		{
			name: "another MSN", second: send(2, "x"), echo: func([][]byte) []byte { return iwarptest.Send(9, nil) },
			want: "1! 2! 3! 4!",
		},
		{name: "nothing", second: send(2, "x"), echo: func([][]byte) []byte { return nil }, want: "1! 2! 3! 4!"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t)
			e.llp.mulpdu = 200
			e.post(read(1, make([]byte, 1)))
			e.post(c.second)
			e.post(read(3, make([]byte, 1)))
			e.post(send(4, "behind"))
			e.transmit()
			err := e.receive(iwarptest.Terminate(uint16(protocol.RDMAPAccess), c.echo(e.llp.sent)))
			if err == nil || !err.Remote {
				t.Fatalf("Receive returns %v", err)
			}
			e.transmit()
			e.wantDone("each has its own status", c.want)
		})
	}
}

// A Response that breaks a rule is the fault of the Read that it answers, at this
// end.
//
// Shows: RDMAP-5.2.2-05
func TestCulpritOfAResponse(t *testing.T) {
	e := newEnd(t)
	e.post(read(1, guarded(t, 1)))
	e.post(read(2, guarded(t, 1)))
	sink := e.wantRead("first", 1, 1, 0x11223344, 0x1000)
	e.next("second")
	e.deliver(iwarptest.ReadResponse(sink, 0, []byte{1}))
	e.wantError("not the sink of the Read that is next", iwarptest.ReadResponse(sink, 0, []byte{1}),
		protocol.DDPTaggedInvalidSTag)
	e.transmit()
	e.wantDone("the second Read", "1 2?")
}

// The receive whose message broke a rule has that error, and no other has it.
func TestRefusedReceive(t *testing.T) {
	for _, c := range []struct {
		name     string
		segments [][]byte
		code     protocol.Code
		token    string
	}{
		{
			name: "too long", segments: [][]byte{iwarptest.Send(1, make([]byte, 20))},
			code: protocol.DDPUntaggedTooLong, token: "[0]",
		},
		{name: "too long, of several segments", segments: [][]byte{
			iwarptest.Send(1, nil),
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, MSN: 2}, make([]byte, 9)),
			iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 3, Last: true, MSN: 2, MO: 9}, make([]byte, 2)),
		}, code: protocol.DDPUntaggedTooLong, token: "[1]"},
		{
			name: "nothing to invalidate", segments: [][]byte{iwarptest.SendInvalidate(1, 99, nil)},
			code: protocol.RDMAPCannotInvalidate, token: "[0]",
		},
		{
			name:     "short Immediate Data",
			segments: [][]byte{iwarptest.Untagged(iwarptest.UntaggedHeader{Opcode: 8, Last: true, MSN: 1}, nil)},
			code:     protocol.RDMAPOperationUnspecified, token: "[0]",
		},
		{
			name:     "no buffer",
			segments: [][]byte{iwarptest.Send(1, nil), iwarptest.Send(2, nil), iwarptest.Send(3, nil)},
			code:     protocol.DDPUntaggedNoBuffer, token: "[]",
		},
		{
			name: "a Write", segments: [][]byte{iwarptest.Write(5, 0, []byte("x"))},
			code: protocol.DDPTaggedInvalidSTag, token: "[]",
		},
		{
			name:     "a segment with half a header",
			segments: [][]byte{iwarptest.Send(1, nil), iwarptest.Send(2, nil)[:17]},
			code:     protocol.DDPLocalCatastrophic, token: "[]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnd(t)
			e.postRecv(10, 10)
			last := len(c.segments) - 1
			e.deliver(c.segments[:last]...)
			err := e.wantError(c.name, c.segments[last], c.code)
			tokens := []uint64{}
			for _, d := range e.refused {
				tokens = append(tokens, d.Buffer.Token)
				if !errors.Is(d.Err, err) {
					t.Errorf("refused with %v", d.Err)
				}
			}
			if got := strings.TrimSpace(fmt.Sprint(tokens)); got != c.token {
				t.Errorf("receives %v refused, want %v", got, c.token)
			}
		})
	}
}
