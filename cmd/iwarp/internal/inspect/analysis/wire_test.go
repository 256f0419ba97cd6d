package analysis_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// pcapOut makes a pcap file by hand.
type pcapOut struct {
	order binary.AppendByteOrder
	nano  bool
	b     []byte
	at    uint64 // time of the next frame in nanoseconds
}

func newPcapOut(order binary.AppendByteOrder, nano bool, link uint32) *pcapOut {
	p := &pcapOut{order: order, nano: nano, at: 1_700_000_000_000_000_000}
	magic := uint32(0xa1b2c3d4)
	if nano {
		magic = 0xa1b23c4d
	}
	p.b = order.AppendUint32(nil, magic)
	p.b = order.AppendUint16(p.b, 2)
	p.b = order.AppendUint16(p.b, 4)
	p.b = append(p.b, make([]byte, 8)...)
	p.b = order.AppendUint32(p.b, 65535)
	p.b = order.AppendUint32(p.b, link)
	return p
}

// add adds a frame, of which the file has at most snap octets if snap is not 0.
func (p *pcapOut) add(frame []byte, snap int) {
	n := len(frame)
	if snap > 0 {
		n = min(n, snap)
	}
	frac := uint32(p.at % 1e9)
	if !p.nano {
		frac /= 1000
	}
	p.b = p.order.AppendUint32(p.b, uint32(p.at/1e9))
	p.b = p.order.AppendUint32(p.b, frac)
	p.b = p.order.AppendUint32(p.b, uint32(n))
	p.b = p.order.AppendUint32(p.b, uint32(len(frame)))
	p.b = append(p.b, frame[:n]...)
	p.at += 1_000_000
}

const (
	tcpFIN = 1
	tcpSYN = 2
	tcpRST = 4
	tcpACK = 16
)

// talk is a TCP connection that is captured. Direction 0 is that of the end that
// dialed.
type talk struct {
	out  *pcapOut
	v6   bool
	wrap func(ip []byte) []byte // link header
	seq  [2]uint32
	port [2]uint16
	snap int
}

func newTalk(out *pcapOut) *talk {
	return &talk{out: out, wrap: onEthernet, seq: [2]uint32{1000, 5000}, port: [2]uint16{40000, 4791}}
}

func onEthernet(ip []byte) []byte {
	kind := []byte{0x08, 0x00}
	if ip[0]>>4 == 6 {
		kind = []byte{0x86, 0xdd}
	}
	return append(append(make([]byte, 12, 14+len(ip)), kind...), ip...)
}

// packet returns the IP packet of a segment at seq.
func (k *talk) packet(dir int, seq uint32, flags byte, payload []byte) []byte {
	t := binary.BigEndian.AppendUint16(nil, k.port[dir])
	t = binary.BigEndian.AppendUint16(t, k.port[1-dir])
	t = binary.BigEndian.AppendUint32(t, seq)
	ack := k.seq[1-dir]
	if flags&tcpACK == 0 {
		ack = 0
	}
	t = binary.BigEndian.AppendUint32(t, ack)
	t = append(t, 5<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	t = append(t, payload...)
	if k.v6 {
		ip := append([]byte{0x60, 0, 0, 0}, byte(len(t)>>8), byte(len(t)), 6, 64)
		for _, end := range [...]int{dir, 1 - dir} {
			ip = append(ip, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(end+1))
		}
		return append(ip, t...)
	}
	n := 20 + len(t)
	ip := []byte{
		0x45, 0, byte(n >> 8), byte(n), 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, byte(dir + 1), 192, 0, 2, byte(2 - dir),
	}
	return append(ip, t...)
}

func (k *talk) raw(dir int, seq uint32, flags byte, payload []byte) {
	k.out.add(k.wrap(k.packet(dir, seq, flags, payload)), k.snap)
}

func (k *talk) open() {
	k.raw(0, k.seq[0], tcpSYN, nil)
	k.seq[0]++
	k.raw(1, k.seq[1], tcpSYN|tcpACK, nil)
	k.seq[1]++
	k.raw(0, k.seq[0], tcpACK, nil)
}

// send sends payload as one segment.
func (k *talk) send(dir int, payload ...[]byte) {
	b := bytes.Join(payload, nil)
	k.raw(dir, k.seq[dir], tcpACK, b)
	k.seq[dir] += uint32(len(b))
}

// skip is a segment that the capture lacks.
func (k *talk) skip(dir int, payload []byte) { k.seq[dir] += uint32(len(payload)) }

func (k *talk) close() {
	for dir := range 2 {
		k.raw(dir, k.seq[dir], tcpFIN|tcpACK, nil)
		k.seq[dir]++
	}
	k.raw(0, k.seq[0], tcpACK, nil)
}

// start opens a connection and sends startup frames with the flags.
func (k *talk) start(req, rep byte) {
	k.open()
	k.send(0, iwarptest.Request(req, 1, nil))
	k.send(1, iwarptest.Reply(rep, 1, nil))
}

// events reads a capture to its end.
func events(t testing.TB, file []byte, o *analysis.ReaderOptions) ([]analysis.Event, *analysis.Reader, error) {
	t.Helper()
	r, err := analysis.Open(bytes.NewReader(file), o)
	if err != nil {
		return nil, nil, err
	}
	var all []analysis.Event
	for {
		e, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				err = nil
			}
			return all, r, err
		}
		all = append(all, e)
	}
}

// of picks the events of one kind.
func of[T analysis.Event](all []analysis.Event) (out []T) {
	for _, e := range all {
		if x, ok := e.(T); ok {
			out = append(out, x)
		}
	}
	return out
}
