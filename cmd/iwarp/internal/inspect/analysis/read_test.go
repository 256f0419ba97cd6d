package analysis_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// greet is a short connection: a Send each way and a Read.
func greet(k *talk) {
	k.start(iwarptest.FlagC, iwarptest.FlagC)
	a, b := new(iwarptest.Framer), new(iwarptest.Framer)
	k.send(0, a.Frame(iwarptest.Send(1, []byte("hello"))))
	k.send(1, b.Frame(iwarptest.ReadRequest(1, 0x11, 0x100, 300, 0x22, 0x200)))
	k.send(0, a.Frame(iwarptest.ReadResponse(0x11, 0x100, make([]byte, 300))))
	k.send(1, b.Frame(iwarptest.Send(1, []byte("bye"))))
	k.close()
}

// brief puts events into words.
func brief(all []analysis.Event) string {
	var s []string
	for _, e := range all {
		h := e.Header()
		switch e := e.(type) {
		case *analysis.StartupFrame:
			s = append(s, fmt.Sprintf("%d %v %s", h.Frame, h.From, e.Kind))
		case *analysis.Message:
			x := fmt.Sprintf("%d %v %s %d", h.Frame, h.From, e.Op, e.Length)
			if e.Partial {
				x += " partial"
			}
			if e.Cut {
				x += " cut"
			}
			if e.Answers != nil {
				x += fmt.Sprintf(" answers %d", e.Answers.RequestFrame)
			}
			s = append(s, x)
		case *analysis.Verdict:
			s = append(s, fmt.Sprintf("%d %v broke %s at %d", h.Frame, h.From, e.Rule, e.Offset))
		case *analysis.Anomaly:
			s = append(s, fmt.Sprintf("%d %v %s %d+%d", h.Frame, h.From, e.What, e.Offset, e.Length))
		case *analysis.Closed:
			s = append(s, "closed "+e.How)
		}
	}
	return strings.Join(s, "; ")
}

const greeting = "4 initiator Request; 5 responder Reply; 6 initiator Send 5; 7 responder RDMA Read Request 28; " +
	"8 initiator RDMA Read Response 300 answers 7; 9 responder Send 3; closed fin"

func TestPcapVariants(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, nano := range []bool{false, true} {
			out := newPcapOut(order, nano, 1)
			greet(newTalk(out))
			all, r, err := events(t, out.b, nil)
			if err != nil || brief(all) != greeting {
				t.Errorf("%v nano %t: %v\n got %s\nwant %s", order, nano, err, brief(all), greeting)
			}
			info := r.Info()
			if info.Format != capture.FormatPcap || info.BigEndian != (order == binary.BigEndian) ||
				len(info.Interfaces) != 1 {
				t.Errorf("Info is %+v", info)
			}
			m := of[*analysis.Message](all)[2]
			if m.Answers.Latency != time.Millisecond || !m.Time.Equal(time.Unix(1_700_000_000, 7e6)) {
				t.Errorf("latency %v, time %v", m.Answers.Latency, m.Time)
			}
		}
	}
}

func TestLinks(t *testing.T) {
	pre := func(b ...byte) func([]byte) []byte {
		return func(ip []byte) []byte { return append(bytes.Clone(b), ip...) }
	}
	zeros := make([]byte, 12)
	for _, tt := range []struct {
		name string
		link uint32
		v6   bool
		wrap func([]byte) []byte
	}{
		{name: "ethernet", link: 1, wrap: onEthernet},
		{name: "ethernet, IPv6", link: 1, v6: true, wrap: onEthernet},
		{name: "a VLAN", link: 1, wrap: pre(append(bytes.Clone(zeros), 0x81, 0, 0, 5, 8, 0)...)},
		{
			name: "stacked VLANs", link: 1, v6: true,
			wrap: pre(append(bytes.Clone(zeros), 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd)...),
		},
		{name: "Linux cooked", link: 113, wrap: pre(0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0)},
		{
			name: "Linux cooked, version 2", link: 276, v6: true,
			wrap: pre(0x86, 0xdd, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0),
		},
		{name: "raw", link: 101, wrap: pre()},
		{name: "raw IPv6", link: 101, v6: true, wrap: pre()},
		{name: "null, little-endian", link: 0, wrap: pre(2, 0, 0, 0)},
		{name: "null, big-endian", link: 0, wrap: pre(0, 0, 0, 2)},
		{name: "null, IPv6 of macOS", link: 0, v6: true, wrap: pre(30, 0, 0, 0)},
		{name: "loop", link: 108, v6: true, wrap: pre(0, 0, 0, 24)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := newPcapOut(binary.LittleEndian, true, tt.link)
			k := newTalk(out)
			k.v6, k.wrap = tt.v6, tt.wrap
			greet(k)
			all, r, err := events(t, out.b, nil)
			if err != nil || brief(all) != greeting {
				t.Errorf("%v, %+v\n got %s\nwant %s", err, r.Stats(), brief(all), greeting)
			}
		})
	}
}

func TestIPv6ExtensionHeaders(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 101)
	k := newTalk(out)
	k.v6 = true
	k.wrap = func(ip []byte) []byte { // hop-by-hop of 16 octets, destination of 8
		ext := append([]byte{60, 1}, make([]byte, 14)...)
		ext = append(ext, 6, 0, 0, 0, 0, 0, 0, 0)
		b := append(bytes.Clone(ip[:40]), ext...)
		b[6] = 0
		binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(ip[4:])+uint16(len(ext)))
		return append(b, ip[40:]...)
	}
	greet(k)
	if all, _, err := events(t, out.b, nil); err != nil || brief(all) != greeting {
		t.Errorf("%v\n got %s\nwant %s", err, brief(all), greeting)
	}
}

func TestEthernetPaddingIsNotPayload(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 1)
	k := newTalk(out)
	k.wrap = func(ip []byte) []byte {
		b := onEthernet(ip)
		for len(b) < 64 {
			b = append(b, 0xee)
		}
		return append(b, 1, 2, 3, 4) // an FCS
	}
	greet(k)
	if all, _, err := events(t, out.b, nil); err != nil || brief(all) != greeting {
		t.Errorf("%v\n got %s\nwant %s", err, brief(all), greeting)
	}
}

// ngBlock makes a block of pcapng.
func ngBlock(order binary.AppendByteOrder, kind uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	n := uint32(len(body) + 12)
	b := order.AppendUint32(nil, kind)
	b = order.AppendUint32(b, n)
	b = append(b, body...)
	return order.AppendUint32(b, n)
}

func ngSection(order binary.AppendByteOrder) []byte {
	b := order.AppendUint32(nil, 0x1a2b3c4d)
	b = order.AppendUint16(b, 1)
	b = order.AppendUint16(b, 0)
	return ngBlock(order, 0x0a0d0d0a, order.AppendUint64(b, ^uint64(0)))
}

func ngInterface(order binary.AppendByteOrder, link uint16, options ...byte) []byte {
	b := order.AppendUint16(nil, link)
	b = order.AppendUint16(b, 0)
	return ngBlock(order, 1, append(order.AppendUint32(b, 0), options...))
}

// frames takes the frames out of a pcap file.
func frames(p *pcapOut) (out [][]byte) {
	for b := p.b[24:]; len(b) > 0; {
		n := p.order.(binary.ByteOrder).Uint32(b[8:])
		out = append(out, b[16:16+n])
		b = b[16+n:]
	}
	return out
}

func TestPcapng(t *testing.T) {
	eth, raw := newPcapOut(binary.LittleEndian, true, 1), newPcapOut(binary.LittleEndian, true, 101)
	greet(newTalk(eth))
	k := newTalk(raw)
	k.wrap = func(ip []byte) []byte { return ip }
	greet(k)
	le, be := binary.LittleEndian, binary.BigEndian
	var file []byte
	file = append(file, ngSection(le)...)
	// nanoseconds
	file = append(file, ngInterface(le, 1, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0)...)
	// 2^-10 s, 100 s later
	file = append(file,
		ngInterface(le, 101, 9, 0, 1, 0, 0x8a, 0, 0, 0, 14, 0, 8, 0, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)...)
	file = append(file, ngBlock(le, 4, make([]byte, 8))...) // name resolution: skipped
	file = append(file, ngBlock(le, 0xbad, []byte("custom"))...)
	ticks := []uint64{1_700_000_000_000_000_000, 1_699_999_900 << 10}
	for i, f := range frames(eth) {
		id := i % 2
		if id == 1 {
			f = frames(raw)[i]
		}
		b := le.AppendUint32(nil, uint32(id))
		b = le.AppendUint32(b, uint32(ticks[id]>>32))
		b = le.AppendUint32(b, uint32(ticks[id]))
		b = le.AppendUint32(b, uint32(len(f)))
		file = append(file, ngBlock(le, 6, append(le.AppendUint32(b, uint32(len(f))), f...))...)
		ticks[0] += 2e6
		ticks[1] += 4
	}
	// A second section in the other octet order, with simple and obsolete packets.
	file = append(file, ngSection(be)...)
	file = append(file, ngInterface(be, 1)...)
	other := newPcapOut(le, true, 1)
	k = newTalk(other)
	k.port[0] = 40001
	greet(k)
	for i, f := range frames(other) {
		if i%2 == 0 {
			file = append(file, ngBlock(be, 3, append(be.AppendUint32(nil, uint32(len(f))), f...))...)
			continue
		}
		b := be.AppendUint32(nil, 0) // interface and drops
		b = be.AppendUint64(b, 1_700_000_000_000_000)
		b = be.AppendUint32(b, uint32(len(f)))
		file = append(file, ngBlock(be, 2, append(be.AppendUint32(b, uint32(len(f))), f...))...)
	}
	all, r, err := events(t, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var first, second []analysis.Event
	for _, e := range all {
		if e.Header().Conn == 1 {
			first = append(first, e)
		} else {
			second = append(second, e)
		}
	}
	if got := brief(first); got != greeting {
		t.Errorf("\n got %s\nwant %s", got, greeting)
	}
	if got := of[*analysis.Message](second); len(got) != 4 || got[0].Frame != 18 {
		t.Errorf("second section: %s", brief(second))
	}
	info := r.Info()
	if len(info.Interfaces) != 3 || !info.BigEndian || info.Interfaces[0].Resolution != 1 ||
		info.Interfaces[1].Resolution != time.Second/1024 ||
		info.Interfaces[2].Resolution != time.Microsecond || info.Interfaces[1].Link != capture.LinkRaw {
		t.Errorf("Info is %+v", info)
	}
	for _, m := range of[*analysis.Message](first) {
		if d := m.Time.Sub(time.Unix(1_700_000_000, 0)); d < 0 || d > time.Second {
			t.Errorf("frame %d has the time %v", m.Frame, m.Time)
		}
	}
}

func TestCompressed(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 1)
	greet(newTalk(out))
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(out.b)
	_ = w.Close()
	all, r, err := events(t, z.Bytes(), nil)
	if err != nil || brief(all) != greeting || !r.Info().Compressed {
		t.Errorf("gzip: %v, %s", err, brief(all))
	}
	all, _, err = events(t, z.Bytes()[:z.Len()-20], nil)
	var fe *capture.FileError
	if !errors.As(err, &fe) || !fe.Compressed || !errors.Is(err, io.ErrUnexpectedEOF) ||
		len(of[*analysis.StartupFrame](all)) == 0 {
		t.Errorf("gzip cut short: %v, %s", err, brief(all))
	}
	zstd := append([]byte{0x28, 0xb5, 0x2f, 0xfd}, out.b...)
	if _, _, err := events(t, zstd, nil); !errors.Is(err, capture.ErrFormat) ||
		!strings.Contains(err.Error(), "Decompress") {
		t.Errorf("zstd without Decompress: %v", err)
	}
	o := &analysis.ReaderOptions{Decompress: func(f capture.Format, r io.Reader) (io.Reader, error) {
		if f != capture.FormatZstd {
			t.Errorf("Decompress is asked for %v", f)
		}
		_, err := io.ReadFull(r, make([]byte, 4))
		return r, err
	}}
	if all, _, err := events(t, zstd, o); err != nil || brief(all) != greeting {
		t.Errorf("zstd: %v, %s", err, brief(all))
	}
}

func TestSniff(t *testing.T) {
	for head, want := range map[string]capture.Format{
		"\xa1\xb2\xc3\xd4": capture.FormatPcap, "\xd4\xc3\xb2\xa1": capture.FormatPcap,
		"\xa1\xb2\x3c\x4d": capture.FormatPcap, "\x4d\x3c\xb2\xa1": capture.FormatPcap,
		"\x0a\x0d\x0d\x0a": capture.FormatPcapng, "\x1f\x8b\x08\x00": capture.FormatGzip,
		"\x28\xb5\x2f\xfd": capture.FormatZstd,
		"\x7fELF":          capture.FormatUnknown, "": capture.FormatUnknown, "\xa1\xb2": capture.FormatUnknown,
	} {
		if got := capture.Sniff([]byte(head)); got != want {
			t.Errorf("% x is %v, want %v", head, got, want)
		}
	}
}

// TestEveryCut cuts a file at every octet: what is before is read, and the error
// says where.
func TestEveryCut(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 1)
	greet(newTalk(out))
	ng := &bytes.Buffer{}
	w, err := capture.NewWriter(ng, capture.LinkEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range frames(out) {
		if err := w.WritePacket(&capture.Packet{
			Time: time.Unix(1_700_000_000, int64(i)*1_000_000), Data: f,
		}); err != nil {
			t.Fatal(err)
		}
	}
	for name, file := range map[string][]byte{"pcap": out.b, "pcapng": ng.Bytes()} {
		whole, _, err := events(t, file, nil)
		if err != nil || brief(whole) != greeting {
			t.Fatalf("%s: %v\n got %s\nwant %s", name, err, brief(whole), greeting)
		}
		clean := 0
		for n := range file {
			all, r, err := events(t, file[:n], nil)
			if err == nil {
				clean++ // between two frames
			} else {
				var fe *capture.FileError
				if !errors.As(err, &fe) || fe.Offset > int64(n) || !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%s cut at %d: %v", name, n, err)
				}
			}
			if r == nil {
				continue
			}
			got := strings.TrimSuffix(strings.TrimSuffix(brief(all), "closed end of capture"), "closed fin")
			if !strings.HasPrefix(greeting, strings.TrimSuffix(got, "; ")) {
				t.Fatalf("%s cut at %d: %s", name, n, got)
			}
			if len(all) > 0 && len(of[*analysis.Closed](all)) != 1 {
				t.Fatalf("%s cut at %d: no Closed event", name, n)
			}
		}
		if clean < 10 {
			t.Errorf("%s: %d clean ends", name, clean)
		}
	}
}

func TestNoCapture(t *testing.T) {
	for _, s := range []string{"", "a", "no capture at all", "\xd4\xc3\xb2\xa1\x09\x00\x04\x00                "} {
		_, err := analysis.Open(strings.NewReader(s), nil)
		var fe *capture.FileError
		if !errors.As(err, &fe) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestCorrupt(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 1)
	greet(newTalk(out))
	bad := bytes.Clone(out.b)
	at := len(bad) - len(frames(out)[0]) - 16 // the last frame has its length
	binary.LittleEndian.PutUint32(bad[at+8:], 0x7fffffff)
	all, _, err := events(t, bad, nil)
	var fe *capture.FileError
	if !errors.As(err, &fe) || fe.Offset != int64(at) || len(of[*analysis.Message](all)) != 4 {
		t.Errorf("a length of 2 GiB at %d: %v, %s", at, err, brief(all))
	}
	file := append(ngSection(binary.LittleEndian), ngInterface(binary.LittleEndian, 1)...)
	at = len(file)
	for name, block := range map[string][]byte{
		"unknown interface": ngBlock(binary.LittleEndian, 6, append([]byte{9}, make([]byte, 19)...)),
		"short packet":      ngBlock(binary.LittleEndian, 6, make([]byte, 8)),
		"odd length":        {6, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0},
		"lengths differ":    {5, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0},
		"too much data":     ngBlock(binary.LittleEndian, 6, append(make([]byte, 12), 99, 0, 0, 0, 99, 0, 0, 0)),
	} {
		_, _, err := events(t, append(bytes.Clone(file), block...), nil)
		if !errors.As(err, &fe) || fe.Offset != int64(at) {
			t.Errorf("%s: %v, want an error at %d", name, err, at)
		}
	}
}

// TestJSON holds the names of the fields that other programs read.
func TestJSON(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 1)
	greet(newTalk(out))
	all, _, _ := events(t, out.b, nil)
	b, err := json.Marshal(of[*analysis.Message](all)[2])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event":"message","conn":1,"frame":8,"time":"2023-11-14T22:13:20.007Z",` +
		`"from":"initiator","first_frame":8,` +
		`"start":"2023-11-14T22:13:20.007Z","op":"RDMA Read Response","opcode":2,"segments":1,` +
		`"length":300,"offset":32,` +
		`"tagged":true,"stag":"0x00000011","to":256,"qn":0,"msn":0,` +
		`"answers":{"request_frame":7,"request_time":"2023-11-14T22:13:20.006Z","latency_ns":1000000,` +
		`"msn":1,"size":300,"src_stag":"0x00000022","src_to":512}}`
	if string(b) != want {
		t.Errorf("\n got %s\nwant %s", b, want)
	}
	var back analysis.Message
	if err := json.Unmarshal(b, &back); err != nil || back.STag != 0x11 || back.From != analysis.Initiator {
		t.Errorf("read back: %v, %+v", err, back)
	}
}

// TestLargeBlocks reads blocks that no buffer holds, whole and cut.
func TestLargeBlocks(t *testing.T) {
	le := binary.LittleEndian
	out := newPcapOut(le, true, 1)
	greet(newTalk(out))
	file := append(ngSection(le), ngInterface(le, 1)...)
	big := ngBlock(le, 0xbad, make([]byte, 3<<20))
	at := len(file)
	file = append(file, big...)
	end := len(file)
	for _, f := range frames(out) {
		b := append(make([]byte, 12), le.AppendUint32(le.AppendUint32(nil, uint32(len(f))), uint32(len(f)))...)
		file = append(file, ngBlock(le, 6, append(b, f...))...)
	}
	all, _, err := events(t, file, nil)
	if err != nil || len(of[*analysis.Message](all)) != 4 {
		t.Errorf("%v: %s", err, brief(all))
	}
	_, _, err = events(t, file[:end-1], nil)
	var fe *capture.FileError
	if !errors.As(err, &fe) || fe.Offset != int64(at) || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut within a block of 3 MiB at %d: %v", at, err)
	}
	bad := bytes.Clone(file)
	le.PutUint32(bad[end:], 6)
	le.PutUint32(bad[end+4:], 1000) // not the length behind
	_, _, err = events(t, bad, nil)
	if !errors.As(err, &fe) || fe.Offset != int64(end) {
		t.Errorf("a bad block behind one of 3 MiB at %d: %v", end, err)
	}
}

// TestOtherTraffic counts what is not TCP over IP.
func TestOtherTraffic(t *testing.T) {
	out := newPcapOut(binary.LittleEndian, true, 1)
	udp := newTalk(out).packet(0, 1, 0, nil)
	udp[9] = 17
	short := newTalk(out).packet(0, 1, 0, nil)
	k6 := newTalk(out)
	k6.v6 = true
	fragment := k6.packet(0, 1, tcpACK, []byte("abcdefgh"))
	fragment = append(append(bytes.Clone(fragment[:40]), 6, 0, 0, 8, 0, 0, 0, 1), fragment[40:]...)
	fragment[6] = 44
	other := bytes.Clone(fragment)
	other[40], other[6] = 6, 59
	for _, f := range [][]byte{
		onEthernet(udp), onEthernet(short[:30]), onEthernet(fragment), onEthernet(other),
		append(make([]byte, 12), 0x08, 0x06, 0, 1), make([]byte, 3), append(make([]byte, 12), 0x81, 0),
		append(append(make([]byte, 12), 8, 0), 0x99), onEthernet([]byte{0x45}), onEthernet([]byte{0x60, 1}),
	} {
		out.add(f, 0)
	}
	_, r, err := events(t, out.b, nil)
	got := r.Stats()
	want := analysis.Stats{Frames: 10, Octets: got.Octets, NotIP: 4, NotTCP: 2, Fragments: 1, CutHeaders: 3}
	if err != nil || got != want {
		t.Errorf("%v, %+v, want %+v", err, got, want)
	}
}
