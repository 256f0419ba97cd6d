package ddp_test

import (
	"fmt"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// printer is a ULP: it lets peers write where the table allows it, and prints
// what is delivered.
type printer struct{ table *ddp.Table }

func (p printer) CheckTagged(h *ddp.Header, _ int) (ddp.Target, *protocol.Error) {
	return ddp.Target{Region: p.table.Lookup(h.STag), Need: ddp.RemoteWrite}, nil
}

func (p printer) CheckUntagged(*ddp.Header, int) *protocol.Error { return nil }

func (p printer) Deliver(m *ddp.Message) *protocol.Error {
	if m.Header.Tagged {
		fmt.Printf("delivered: tagged message of %d octets\n", m.Length)
	} else {
		fmt.Printf("delivered: MSN %d on QN %d: %q\n", m.Header.MSN, m.Header.QN, m.Buffer.SG[0][:m.Length])
	}
	return nil
}

// oneBuffer is a Source with a fresh buffer for each message.
type oneBuffer struct{}

func (oneBuffer) Take(*ddp.Header) (ddp.Buffer, bool) {
	return ddp.Buffer{SG: [][]byte{make([]byte, 64)}}, true
}

// Segments come out of order. Each is placed when it comes, the messages are
// delivered as they were sent.
func ExampleReceiver() {
	table := ddp.NewTable(0)
	peer := ddp.Peer{PD: 1, Stream: 1}
	memory := make([]byte, 12)
	region, err := table.Register(ddp.RegionConfig{
		Buf: memory, Access: ddp.RemoteWrite, PD: peer.PD, Stream: peer.Stream,
	})
	if err != nil {
		panic(err)
	}

	// The sender: a tagged message and an untagged one that says it is there.
	var sent [][]byte
	send := func(h ddp.Header, data string) {
		var out ddp.Outgoing
		if err := out.Start(h, [][]byte{[]byte(data)}); err != nil {
			panic(err)
		}
		for out.Active() {
			header, payload, _ := out.Next(24) // a tiny MULPDU
			seg := append([]byte(nil), header...)
			for _, piece := range payload {
				seg = append(seg, piece...)
			}
			sent = append(sent, seg)
		}
	}
	send(ddp.Header{Tagged: true, Version: ddp.Version, STag: region.STag()}, "placed here!")
	send(ddp.Header{Version: ddp.Version, QN: 0, MSN: 1}, "look")

	// The receiver.
	r := ddp.NewReceiver(ddp.ReceiverConfig{Peer: peer}, printer{table})
	r.SetQueue(0, oneBuffer{})
	for _, order := range []uint64{2, 1, 0} {
		if err := r.Segment(order, sent[order]); err != nil {
			panic(err)
		}
		fmt.Printf("segment %d: memory %q\n", order, memory)
	}
	// Output:
	// segment 2: memory "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	// segment 1: memory "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00e!"
	// delivered: tagged message of 12 octets
	// delivered: MSN 1 on QN 0: "look"
	// segment 0: memory "placed here!"
}

// A message is cut when the LLP can take it, each segment at the MULPDU of the
// moment.
func ExampleOutgoing() {
	var out ddp.Outgoing
	err := out.Start(ddp.Header{Version: ddp.Version, MSN: 1}, [][]byte{make([]byte, 1000), make([]byte, 1048)})
	if err != nil {
		panic(err)
	}
	for _, mulpdu := range []int{1500, 1200} {
		header, payload, last := out.Next(mulpdu)
		n := 0
		for _, piece := range payload {
			n += len(piece)
		}
		fmt.Printf("header %x, %d octets in %d pieces, last: %v\n", header, n, len(payload), last)
	}
	// Output:
	// header 010000000000000000000000000100000000, 1482 octets in 2 pieces, last: false
	// header 4100000000000000000000000001000005ca, 566 octets in 1 pieces, last: true
}

// After Invalidate the memory is the program's own again.
func ExampleRegion_Invalidate() {
	table := ddp.NewTable(0)
	memory := make([]byte, 5)
	region, err := table.Register(ddp.RegionConfig{Buf: memory, Access: ddp.RemoteWrite, PD: 1, Stream: 1})
	if err != nil {
		panic(err)
	}
	peer := ddp.Peer{PD: 1, Stream: 1}
	if err := region.Place(peer, 0, []byte("valid"), ddp.RemoteWrite); err != nil {
		panic(err)
	}
	region.Invalidate()
	refused := region.Place(peer, 0, []byte("later"), ddp.RemoteWrite)
	fmt.Println(refused.Code)
	fmt.Printf("%s\n", memory)
	// Output:
	// DDP tagged buffer: invalid STag (1/1/00)
	// valid
}
