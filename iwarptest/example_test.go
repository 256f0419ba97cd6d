package iwarptest_test

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-iwarp/iwarp/iwarptest"
)

func ExamplePipe() {
	a, b := iwarptest.Pipe(&iwarptest.PipeConfig{MaxRead: 4})
	defer b.Close()
	fmt.Fprint(a, "hello, world")
	a.Close()
	buf := make([]byte, 100)
	for {
		n, err := b.Read(buf)
		if err == io.EOF {
			break
		}
		fmt.Printf("%q\n", buf[:n])
	}
	// Output:
	// "hell"
	// "o, w"
	// "orld"
}

func ExampleInject() {
	a, b := iwarptest.Pipe(nil)
	bad := iwarptest.Inject(b,
		iwarptest.Fault{Kind: iwarptest.Flip, At: 0, Mask: 0x20},
		iwarptest.Fault{Kind: iwarptest.Cut, At: 5},
	)
	fmt.Fprint(a, "hello, world")
	got, err := io.ReadAll(bad)
	fmt.Printf("%q %v\n", got, err)
	// Output: "Hello" <nil>
}

func ExampleEverySplit() {
	for pieces := range iwarptest.EverySplit([]byte("abcd"), 2) {
		fmt.Printf("%s\n", bytes.Join(pieces, []byte(" ")))
	}
	// Output:
	// a bcd
	// ab cd
	// abc d
}

func ExampleFramer() {
	f := iwarptest.Framer{Markers: true}
	fmt.Printf("%x\n", f.Frame(iwarptest.Send(1, []byte("hello"))))
	fmt.Println("next FPDU at", f.Pos)
	// Output:
	// 00000000001741430000000000000000000000010000000068656c6c6f0000007a61e971
	// next FPDU at 36
}

func ExampleFixCRC() {
	fpdu := iwarptest.FPDU(iwarptest.Send(1, []byte("x")))
	fpdu[2] ^= 0x03 // DDP version 2: wrong, and nothing else is
	iwarptest.FixCRC(fpdu)
	fmt.Printf("%x\n", fpdu)
	// Output: 001342430000000000000000000000010000000078000000c5c90f68
}

// lax is a TB for a program: it prints and panics.
type lax struct{}

func (lax) Helper()                           {}
func (lax) Cleanup(func())                    {}
func (lax) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Two peers play the whole of a short connection. In a real test one end belongs
// to the code under test.
func ExamplePeer() {
	a, b := iwarptest.Pipe(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := iwarptest.NewPeer(lax{}, b)
		r.Respond("the initiator starts", iwarptest.Reply(iwarptest.FlagC, 1, nil))
		r.WantFrame("the first Send", iwarptest.Send(1, []byte("hello")))
		r.Send(iwarptest.Send(7, nil)) // MSN 1 is due
		r.WantTerminate("MSN out of range", 0x1203)
		r.WantEOF("the connection ends after a Terminate")
		fmt.Println("responder is content")
	}()
	i := iwarptest.NewPeer(lax{}, a)
	i.Initiate("the responder accepts", iwarptest.Request(iwarptest.FlagC, 1, nil))
	i.Send(iwarptest.Send(1, []byte("hello")))
	fmt.Println(iwarptest.Describe(i.Frame("something comes back")))
	i.Send(iwarptest.Terminate(0x1203, iwarptest.Send(7, nil)))
	i.CloseWrite()
	<-done
	// Output:
	// Send QN 0 MSN 7 MO 0 L +0
	// responder is content
}
