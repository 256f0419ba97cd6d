package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// scene is a connection whose two ends a test plays, octet for octet, while a
// Recorder looks on. It plays in a bubble of testing/synctest, so that the times in
// the recording are the same in every run.
type scene struct {
	t      *testing.T
	rec    *capture.Recorder
	a, b   net.Conn // initiator, which is recorded, and responder
	fa, fb iwarptest.Framer
}

// record plays a scene and gives the recording.
func record(t *testing.T, play func(*scene)) []byte {
	t.Helper()
	var file bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		rec, err := capture.NewRecorder(&file, nil)
		if err != nil {
			t.Fatal(err)
		}
		play(newScene(t, rec))
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return file.Bytes()
}

// newScene starts a connection.
func newScene(t *testing.T, rec *capture.Recorder) *scene {
	a, b := iwarptest.Pipe(&iwarptest.PipeConfig{Window: 1 << 20})
	return &scene{t: t, rec: rec, a: rec.Conn(a), b: b}
}

// pass lets some time go by and moves octets, in one piece of TCP.
func (s *scene) pass(from, to net.Conn, octets []byte) {
	s.t.Helper()
	time.Sleep(50 * time.Microsecond) // of the bubble's time
	if _, err := from.Write(octets); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.ReadFull(to, make([]byte, len(octets))); err != nil {
		s.t.Fatal(err)
	}
}

// raw sends octets from the initiator, answer from the responder.
func (s *scene) raw(octets ...byte)    { s.t.Helper(); s.pass(s.a, s.b, octets) }
func (s *scene) answer(octets ...byte) { s.t.Helper(); s.pass(s.b, s.a, octets) }

// send and reply send FPDUs, those of one call in one piece.
func (s *scene) send(segments ...[]byte) {
	s.t.Helper()
	s.raw(frames(&s.fa, segments)...)
}

func (s *scene) reply(segments ...[]byte) {
	s.t.Helper()
	s.answer(frames(&s.fb, segments)...)
}

func frames(f *iwarptest.Framer, segments [][]byte) (out []byte) {
	for _, seg := range segments {
		out = append(out, f.Frame(seg)...)
	}
	return out
}

// close ends both directions, the initiator's first.
func (s *scene) close() {
	for _, c := range []net.Conn{s.a, s.b} {
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, c := range []net.Conn{s.b, s.a} {
		if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
			s.t.Fatalf("at the end: %d octets, %v", n, err)
		}
		_ = c.Close()
	}
}

// Both ends agree on these, unless the scene is about startup.
const (
	peerToPeer = 0x8000
	rtrWrite   = 0x8000 // in the other half of the block
	rtrRead    = 0x4000
)

// start is a startup of revision 2, peer-to-peer, with CRC. m are the M flags of
// Request and Reply.
func (s *scene) start(mRequest, mReply bool, private string) {
	s.t.Helper()
	flags := func(m bool) byte {
		if m {
			return iwarptest.FlagM | iwarptest.FlagC | iwarptest.FlagS
		}
		return iwarptest.FlagC | iwarptest.FlagS
	}
	s.fa.Markers, s.fb.Markers = mReply, mRequest
	s.raw(iwarptest.Request(flags(mRequest), 2,
		iwarptest.Enhanced(peerToPeer|16, rtrWrite|rtrRead|8, []byte(private)))...)
	s.answer(iwarptest.Reply(flags(mReply), 2, iwarptest.Enhanced(peerToPeer|8, rtrWrite|4, []byte("ok")))...)
	s.send(iwarptest.Tagged(0, true, 0, 0, nil)) // the RTR
}

const (
	stagA = 0x11223344 // of the initiator
	stagB = 0x55667788 // of the responder
)

func octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// write cuts an RDMA Write into segments of at most size octets, each sent on its
// own.
func (s *scene) write(to uint64, data []byte, size int) {
	at := 0
	for piece := range slices.Chunk(data, size) {
		s.send(iwarptest.Tagged(0, at+len(piece) == len(data), stagB, to+uint64(at), piece))
		at += len(piece)
	}
}

// everything has one of each operation, and ends with a Terminate for a Read.
func everything(s *scene) {
	s.start(false, false, "hello")
	s.send(iwarptest.Send(1, []byte("hello")))
	s.reply(iwarptest.Send(1, []byte("hello yourself")))
	s.write(0x1000, octets(3000), 1440)
	s.send(iwarptest.ReadRequest(1, stagA, 0x2000, 2000, stagB, 0x1000))
	s.reply(iwarptest.Tagged(2, false, stagA, 0x2000, octets(1440)),
		iwarptest.Tagged(2, true, stagA, 0x2000+1440, octets(560)))
	s.send(iwarptest.FetchAdd(2, 7, stagB, 0x1008, 41, 0))
	s.reply(iwarptest.AtomicResponse(1, 7, 1))
	s.send(iwarptest.CmpSwap(3, 8, stagB, 0x1008, 42, 1000))
	s.reply(iwarptest.AtomicResponse(2, 8, 42))
	s.send(iwarptest.Immediate(2, [8]byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}))
	s.send(iwarptest.SendSolicited(3, []byte("look")))
	s.send(iwarptest.SendInvalidate(4, stagB, []byte("done")), iwarptest.SendSolicitedInvalidate(5, stagB+1, nil))
	refused := iwarptest.ReadRequest(4, stagA, 0, 64, stagB, 0x1000)
	s.send(refused)
	s.reply(iwarptest.Terminate(0x0100, refused))
	s.close()
}

// broken breaks rules: MPA-7.1.2-14, MPA-4.1-03, DDP-4.3-08 and a CRC.
func broken(s *scene) {
	s.raw(iwarptest.Request(iwarptest.FlagC, 1, nil)...)
	s.answer(iwarptest.Reply(iwarptest.FlagC, 1, nil)...)
	s.reply(iwarptest.Send(1, []byte("too early")))
	pad := s.fa.Frame(iwarptest.Send(1, []byte("hello")))
	pad[len(pad)-5] = 0xee
	s.raw(iwarptest.FixCRC(pad)...)
	s.send(iwarptest.Send(3, []byte("MSN 2 is missing")))
	bad := s.fa.Frame(iwarptest.Send(4, []byte("the CRC is wrong")))
	bad[len(bad)-1] ^= 1
	s.raw(bad...)
	s.close()
}

// markers has them both ways, with several in one FPDU.
func markers(s *scene) {
	s.start(true, true, "")
	s.write(0, octets(2800), 1400)
	s.send(iwarptest.Send(1, []byte("one")), iwarptest.Send(2, []byte("two")), iwarptest.Send(3, octets(600)))
	s.reply(iwarptest.Send(1, octets(1000)))
	s.close()
}

// rejected is a startup that comes to nothing.
func rejected(s *scene) {
	s.raw(iwarptest.Request(iwarptest.FlagC, 1, []byte("let me in"))...)
	s.answer(iwarptest.Reply(iwarptest.FlagC|iwarptest.FlagR, 1, []byte("no"))...)
	s.close()
}

// two are connections at the same time.
func two(s *scene) {
	other := newScene(s.t, s.rec)
	s.start(false, false, "first")
	other.start(false, false, "second")
	s.send(iwarptest.Send(1, []byte("a")))
	other.send(iwarptest.Write(stagB, 0x10, []byte("b")))
	s.reply(iwarptest.Send(1, []byte("c")))
	other.reply(iwarptest.Send(1, []byte("d")))
	other.close()
	s.close()
}

// hostile tries to be more than text on a page.
func hostile(s *scene) {
	s.start(false, false, `"><script>alert(1)</script><img src=x onerror=alert(2)>`)
	s.send(iwarptest.Send(1, []byte("</title><script>alert(3)</script>")))
	s.close()
}

var scenes = map[string]func(*scene){
	"everything": everything, "broken": broken, "markers": markers, "rejected": rejected, "two": two,
	"hostile": hostile,
}

// writeScenes records all scenes into a folder.
func writeScenes(t *testing.T, dir string) {
	t.Helper()
	for name, play := range scenes {
		if err := os.WriteFile(filepath.Join(dir, name+".pcapng"), record(t, play), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
