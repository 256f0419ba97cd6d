package analysis_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// everything sends each kind of message, both ways, in one segment each.
func everything(a, b *side) {
	for _, x := range []*side{a, b} {
		x.send(opSend, 5, iwarp.SendWR{})
		x.send(opSend, 0, iwarp.SendWR{})
		x.send(opSendSE, 9, iwarp.SendWR{Solicited: true})
		x.invalidate(opSendInv, 11, false)
		x.invalidate(opSendSEInv, 13, true)
		x.write(100)
		x.write(0)
		x.read(101)
		x.read(0)
		x.immediate(opImmediate, false)
		x.immediate(opImmediateSE, true)
		x.atomics()
	}
}

// large sends messages of many segments, both ways.
func large(a, b *side) {
	for _, x := range []*side{a, b} {
		x.send(opSend, 20000, iwarp.SendWR{})
		x.write(50000)
		x.read(30001)
	}
}

// medium sends messages of two and three segments, both ways. With Markers and the
// default sizes no FPDU ends where a Marker is due.
func medium(a, b *side) {
	for _, x := range []*side{a, b} {
		x.send(opSend, 2003, iwarp.SendWR{})
		x.write(3001)
		x.read(2005)
	}
}

// burst posts many Sends at once.
func burst(a, b *side) {
	a.send(opSend, 1, iwarp.SendWR{})
	for _, x := range []*side{a, b} {
		wrs := make([]iwarp.SendWR, 50)
		for i := range wrs {
			wrs[i] = iwarp.SendWR{Op: iwarp.OpSend, Unsignaled: true, SG: [][]byte{pattern(3*i, uint64(3*i))}}
			x.note(opSend, 3*i)
		}
		x.ok(x.c.QP().PostSend(wrs...))
		for i := range wrs {
			x.peer.receive(3 * i)
		}
	}
}

func both(runs ...func(a, b *side)) func(a, b *side) {
	return func(a, b *side) {
		for _, run := range runs {
			run(a, b)
		}
	}
}

const (
	limitOneWay  = "it cannot follow the unmarked direction when only one direction has Markers"
	limitGlued   = "it cannot follow several FPDUs in one segment with Markers"
	limitEnd     = "it cannot follow an FPDU with Markers that ends where the next one is due"
	limitTiny    = "it does not see an FPDU that starts in a segment of fewer than 8 octets"
	limitStartup = "it does not see MPA where a startup frame is cut"
)

// endsAtMarker is the length of a Send with a Marker in it that ends at octet 1024
// of the stream, when only an RTR Write of 20 octets and its Marker came before.
const endsAtMarker = 1024 - 24 - 4 - 2 - 18 - 4

func scenes() []*scene {
	marked := iwarp.Config{MPA: iwarp.MPAConfig{Markers: true}}
	rtr := func(k iwarp.RTR) iwarp.Config { return iwarp.Config{MPA: iwarp.MPAConfig{RTR: k}} }
	s := []*scene{
		{name: "everything", run: everything},
		{name: "everything over IPv6", address: "[::1]:0", run: everything},
		{name: "everything without CRC", noCRC: true, run: everything},
		{
			name: "everything with revision 1", client: iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}, ORD: 4},
			server: iwarp.Config{ORD: 4}, run: everything,
		},
		{name: "everything with Markers", client: marked, server: marked, cut: apart, run: everything},
		{name: "everything in pieces", cut: pieces(8), run: everything},
		{name: "large", run: large},
		{name: "large over IPv6", address: "[::1]:0", run: large},
		{name: "large without CRC", noCRC: true, run: large},
		{
			name: "large FPDUs", client: iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: 60000}},
			server: iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: 20001}}, run: large,
		},
		{
			name: "small FPDUs", client: iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: 200}},
			server: iwarp.Config{MPA: iwarp.MPAConfig{FPDUMax: 130}}, run: medium,
		},
		{name: "large, one segment for each FPDU", cut: apart, run: large},
		{name: "medium in pieces", cut: pieces(333), run: medium},
		{name: "medium with Markers", client: marked, server: marked, cut: apart, run: medium},
		{
			name: "medium with Markers, without CRC", client: marked, server: marked, noCRC: true, cut: apart,
			run: medium,
		},
		{
			name:   "medium with Markers and revision 1",
			client: iwarp.Config{MPA: iwarp.MPAConfig{Markers: true, Revision: 1, FPDUMax: 1460}}, server: marked,
			cut: apart, run: medium,
		},
		{name: "burst", run: burst},
		{name: "burst without CRC", noCRC: true, run: burst},
		{name: "RTR Send", client: rtr(iwarp.RTRSend), server: rtr(iwarp.RTRSend), run: medium},
		{name: "RTR Write", client: rtr(iwarp.RTRWrite), server: rtr(iwarp.RTRWrite), run: medium},
		{name: "RTR Read", client: rtr(iwarp.RTRRead), server: rtr(iwarp.RTRRead), run: medium},
		{name: "RTR of any kind, responder first", run: func(_, b *side) { b.send(opSend, 17, iwarp.SendWR{}) }},
		{name: "no RTR", client: rtr(iwarp.RTRNone), run: medium},
		{
			name: "Private Data", client: iwarp.Config{PrivateData: pattern(508, 1)},
			server: iwarp.Config{PrivateData: pattern(100, 2)}, run: medium,
		},
		{name: "rejected", reject: []byte("no"), client: iwarp.Config{PrivateData: []byte("please")}},
		{name: "rejected with revision 1", reject: []byte{}, client: iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}}},

		{name: "Markers of the initiator", server: marked, cut: apart, run: medium, beyond: [2]string{1: limitOneWay}},
		{name: "Markers of the responder", client: marked, cut: apart, run: medium, beyond: [2]string{0: limitOneWay}},
		{
			name: "large with Markers", client: marked, server: marked, run: large,
			beyond: [2]string{limitGlued, limitGlued},
		},
		{
			name: "burst with Markers", client: marked, server: marked, run: burst,
			beyond: [2]string{limitGlued, limitGlued},
		},
		{
			name: "everything octet by octet", cut: pieces(1),
			run:    func(a, b *side) { a.send(opSend, 5, iwarp.SendWR{}); b.read(9) },
			beyond: [2]string{limitTiny, limitTiny},
		},
		{
			name: "FPDU ends at a Marker", client: marked, server: marked, cut: apart,
			run:    both(func(a, _ *side) { a.send(opSend, endsAtMarker, iwarp.SendWR{}) }, everything),
			beyond: [2]string{0: limitEnd},
		},
		{name: "startup in pieces", cut: func(_ *scene, nc net.Conn, _ bool) net.Conn {
			return &cutConn{Conn: nc, startup: true, next: func(b []byte) int { return min(7, len(b)) }}
		}, run: medium, beyond: [2]string{limitStartup, limitStartup}},
	}
	return append(s, terminates()...)
}

// terminates are the scenes that end with a Terminate of the responder's.
func terminates() []*scene {
	end := func(code protocol.Code, length int, do func(a, b *side) error) func(a, b *side) {
		return func(a, b *side) {
			a.send(opSend, 3, iwarp.SendWR{})
			a.refused(code, length, func() error { return do(a, b) })
		}
	}
	const (
		bare     = 4
		tagged   = bare + 2 + 14
		untagged = bare + 2 + 18
		request  = untagged + 28
	)
	read := func(n int, from func(b *side) iwarp.RemoteBuffer) func(a, b *side) error {
		return func(a, b *side) error {
			a.note(opReadRequest, 28)
			return a.c.RDMARead(a.ctx, make([]byte, n), from(b))
		}
	}
	write := func(n int, to func(b *side) iwarp.RemoteBuffer) func(a, b *side) error {
		return func(a, b *side) error {
			a.note(opWrite, n)
			return a.c.RDMAWrite(a.ctx, make([]byte, n), to(b))
		}
	}
	none := func(*side) iwarp.RemoteBuffer { return iwarp.RemoteBuffer{STag: 0x00000100} }
	edge := func(b *side) iwarp.RemoteBuffer { return remoteAt(b.mr, memory-1) }
	right := func(access iwarp.Access) func(b *side) iwarp.RemoteBuffer {
		return func(b *side) iwarp.RemoteBuffer { return b.register(access).Remote() }
	}
	send := func(n int) func(a, b *side) error {
		return func(a, _ *side) error {
			a.note(opSend, n)
			return a.c.Send(a.ctx, make([]byte, n))
		}
	}
	return []*scene{
		{name: "Terminate 0/1/00", run: end(protocol.RDMAPInvalidSTag, request, read(8, none))},
		{name: "Terminate 0/1/01", run: end(protocol.RDMAPBounds, request, read(2, edge))},
		{name: "Terminate 0/1/02", run: end(protocol.RDMAPAccess, request, read(8, right(iwarp.RemoteWrite)))},
		{name: "Terminate 0/1/09", run: end(protocol.RDMAPCannotInvalidate, untagged, func(a, _ *side) error {
			a.note(opSendInv, 1)
			return a.c.SendInvalidate(a.ctx, []byte{1}, 0x100)
		})},
		{name: "Terminate 1/1/00", run: end(protocol.DDPTaggedInvalidSTag, tagged, write(8, none))},
		{name: "Terminate 1/1/01", run: end(protocol.DDPTaggedBounds, tagged, write(2, edge))},
		{
			name: "Terminate 1/2/02", server: iwarp.Config{RecvDepth: 1},
			run: end(protocol.DDPUntaggedNoBuffer, untagged, func(a, b *side) error {
				_ = send(1)(a, b)
				return send(1)(a, b)
			}),
		},
		{
			name: "Terminate 1/2/05", server: iwarp.Config{RecvSize: 10},
			run: end(protocol.DDPUntaggedTooLong, untagged, send(11)),
		},
		{
			name: "Terminate 1/1/00 with Markers", client: iwarp.Config{MPA: iwarp.MPAConfig{Markers: true}},
			server: iwarp.Config{MPA: iwarp.MPAConfig{Markers: true}}, cut: apart,
			run: end(protocol.DDPTaggedInvalidSTag, tagged, write(8, none)),
		},
		{
			name: "Terminate 1/1/00 without CRC", noCRC: true,
			run: end(protocol.DDPTaggedInvalidSTag, tagged, write(8, none)),
		},
		// The octet changes on the wire, behind the recorder.
		{name: "Terminate 2/0/02", wire: func(nc net.Conn, initiator bool) net.Conn {
			if initiator {
				return iwarptest.Inject(nc, iwarptest.Fault{Kind: iwarptest.Flip, Write: true, At: flipAt})
			}
			return nc
		}, run: end(protocol.MPACRC, bare, send(8))},
	}
}

// flipAt is an octet of the payload of the Send that the scenes of terminates end
// with, counted from the Request on: the Request, the RTR, and a Send of 3 octets
// come first.
const flipAt = 24 + 20 + 28 + 22

// verdict compares what a judge saw of a scene with what was sent, and gives what
// is wrong. Directions for which beyond says so are not looked at.
func (s *scene) verdict(seen map[[2]int]*sight, beyond [2]string) []string {
	var wrong []string
	object := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for i, who := range [2]string{"initiator", "responder"} {
		if beyond[i] != "" {
			continue
		}
		got := seen[[2]int{s.ports[i], s.ports[1-i]}]
		if got == nil {
			object("%s: nothing is seen of it", who)
			continue
		}
		if want := []frame{s.startup[i]}; !slices.Equal(got.startup, want) {
			object("%s: startup frames %+v, want %+v", who, got.startup, want)
		}
		for k := range max(len(got.messages), len(s.sent[i])) {
			switch {
			case k >= len(got.messages):
				object("%s: message %d is not seen: %v", who, k, s.sent[i][k])
			case k >= len(s.sent[i]):
				object("%s: message %d was not sent: %v", who, k, got.messages[k])
			case got.messages[k] != s.sent[i][k]:
				object("%s: message %d is %v, want %v", who, k, got.messages[k], s.sent[i][k])
			}
		}
		good := got.segments
		if s.noCRC {
			good = 0
		}
		if got.good != good || got.bad != 0 || got.isOpen {
			object("%s: %d segments, %d CRCs are good, %d bad, a message is cut: %v", who, got.segments, got.good,
				got.bad, got.isOpen)
		}
		for _, what := range got.trouble {
			object("%s: %s", who, what)
		}
	}
	return wrong
}

// playAll plays scenes into one file.
func playAll(t *testing.T, all []*scene) (file string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "judge.pcapng"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rec, err := capture.NewRecorder(f, &capture.Options{Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		s.play(t, rec)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func own(t *testing.T, file string) map[[2]int]*sight {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rec, err := capture.NewReader(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen, err := readOwn(rec)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestJudges has two judges that share no code with the library read what two of
// its endpoints say to each other: tshark within its limits, and iwarptest's
// reader.
func TestJudges(t *testing.T) {
	all := scenes()
	file := playAll(t, all)
	t.Run("own", func(t *testing.T) {
		seen := own(t, file)
		for _, s := range all {
			for _, what := range s.verdict(seen, [2]string{}) {
				t.Errorf("%s: %s", s.name, what)
			}
		}
	})
	t.Run("tshark", func(t *testing.T) {
		seen := askTshark(t, needTshark(t), file)
		judged := [4]int{} // directions, messages, segments, good CRCs
		for _, s := range all {
			wrong := s.verdict(seen, s.beyond)
			for _, what := range wrong {
				t.Errorf("%s: %s", s.name, what)
			}
			for i, why := range s.beyond {
				if why != "" {
					t.Logf("%s, direction %d: not judged by tshark: %s", s.name, i, why)
				} else if v := seen[[2]int{s.ports[i], s.ports[1-i]}]; v != nil {
					for k, n := range [4]int{1, len(v.messages), v.segments, v.good} {
						judged[k] += n
					}
				}
			}
			if s.beyond != [2]string{} && len(s.verdict(seen, [2]string{})) == 0 {
				t.Logf("%s: this tshark can follow it", s.name)
			}
		}
		t.Logf("tshark confirmed %d directions, %d messages in %d segments, %d CRCs good", judged[0], judged[1],
			judged[2], judged[3])
	})
}

// TestJudgesCanFail has each judge find an octet that changed before it was
// recorded, and a message that was noted as another.
func TestJudgesCanFail(t *testing.T) {
	bad := terminates()[0]
	for _, s := range terminates() {
		if s.wire != nil {
			bad = s
		}
	}
	// The fault of the wire comes before the recorder now.
	fault := bad.wire
	bad.wire, bad.cut = nil, func(_ *scene, nc net.Conn, initiator bool) net.Conn { return fault(nc, initiator) }
	lie := &scene{name: "lie", run: func(a, _ *side) {
		a.send(opSendSE, 3, iwarp.SendWR{}) // it is a Send
	}}
	file := playAll(t, []*scene{bad, lie})
	for _, judge := range []struct {
		name string
		see  func(t *testing.T) map[[2]int]*sight
	}{
		{name: "own", see: func(t *testing.T) map[[2]int]*sight { return own(t, file) }},
		{name: "tshark", see: func(t *testing.T) map[[2]int]*sight { return askTshark(t, needTshark(t), file) }},
	} {
		t.Run(judge.name, func(t *testing.T) {
			seen := judge.see(t)
			for _, s := range []*scene{bad, lie} {
				wrong := s.verdict(seen, s.beyond)
				if len(wrong) == 0 {
					t.Errorf("%s: nothing is found wrong", s.name)
				}
				t.Logf("%s: %q", s.name, wrong)
			}
		})
	}
}
