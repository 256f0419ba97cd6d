package analysis_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

func ExampleOpen() {
	// A capture with one connection, whose Initiator leaves out an MSN.
	out := ownOut()
	k := newTalk(out)
	k.start(iwarptest.FlagC, iwarptest.FlagC)
	k.send(0, iwarptest.FPDU(iwarptest.Send(1, []byte("hello"))))
	k.send(0, iwarptest.FPDU(iwarptest.Send(3, []byte("again"))))
	k.close()

	r, err := analysis.Open(bytes.NewReader(out.b), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Println("cut or corrupt:", err)
			return
		}
		switch e := e.(type) {
		case *analysis.Message:
			fmt.Printf("frame %d: %v from %s, %d octets\n", e.Frame, e.Op, e.From, e.Length)
		case *analysis.Verdict:
			fmt.Printf("frame %d: the %s broke %s: expected %s, seen %s\n", e.Frame, e.From, e.Rule, e.Expected, e.Seen)
		}
	}
	// Output:
	// frame 6: Send from initiator, 5 octets
	// frame 7: the initiator broke DDP-4.3-08: expected MSN 2, the next one of QN 0, seen MSN 3
	// frame 7: Send from initiator, 5 octets
}
