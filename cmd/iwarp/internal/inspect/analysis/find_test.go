package analysis_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// TestMidStream starts the capture within a connection, at every segment and with
// segments that do not begin with FPDUs.
func TestMidStream(t *testing.T) {
	for _, tt := range []struct {
		name         string
		markers, crc bool
		size         int // of a segment; 0: one FPDU each
		least        int // messages of 40
	}{
		{name: "CRC, aligned", crc: true, size: 0, least: 40},
		{name: "CRC, not aligned", crc: true, size: 700, least: 38},
		{name: "no CRC, aligned", size: 0, least: 40},
		{name: "no CRC, not aligned", size: 700, least: 36},
		{name: "Markers and CRC, aligned", markers: true, crc: true, size: 0, least: 40},
		{name: "Markers and CRC, not aligned", markers: true, crc: true, size: 700, least: 36},
		{name: "Markers, aligned", markers: true, size: 0, least: 38},
		{name: "Markers, not aligned", markers: true, size: 700, least: 34},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for skip := range uint64(7) {
				out := ownOut()
				k := newTalk(out)
				f := &iwarptest.Framer{Markers: tt.markers, NoCRC: !tt.crc, Pos: 4 * (skip*23 + 7)}
				stream := sends(f, 1000, 40, 150)
				if tt.size > 0 {
					b := bytes.Join(stream, nil)[50*skip:]
					stream = nil
					for ; len(b) > 0; b = b[min(tt.size, len(b)):] {
						stream = append(stream, b[:min(tt.size, len(b))])
					}
				}
				for _, b := range stream {
					k.send(0, b)
					k.raw(1, k.seq[1], tcpACK, nil)
				}
				k.close()
				all, _, err := events(t, out.b, nil)
				if err != nil {
					t.Fatal(err)
				}
				noVerdicts(t, all)
				if got := of[*analysis.Message](all); len(got) < tt.least || got[len(got)-1].MSN != 1039 {
					t.Errorf("skip %d: %d messages: %s\n%s", skip, len(got), ops(all), anomalies(all))
					continue
				}
				c := of[*analysis.Closed](all)[0].Conn
				want := map[bool]string{true: "on", false: "off"}[tt.crc]
				if c.CRC != want || c.From[0].Marked != tt.markers || !c.MidStream || c.Roles {
					t.Errorf("skip %d: CRC %s, Markers %t, %+v", skip, c.CRC, c.From[0].Marked, c)
				}
			}
		})
	}
}

// TestMidStreamBothWays: after a Read Request that the capture lacks, its response
// breaks no rule.
func TestMidStreamBothWays(t *testing.T) {
	out := ownOut()
	k := newTalk(out)
	a, b := new(iwarptest.Framer), new(iwarptest.Framer)
	k.send(1, b.Frame(iwarptest.ReadResponse(7, 8, make([]byte, 99))))
	k.send(0, a.Frame(iwarptest.ReadRequest(55, 1, 2, 10, 3, 4)))
	k.send(0, a.Frame(iwarptest.ReadRequest(56, 5, 6, 11, 7, 8)))
	k.send(1, b.Frame(iwarptest.ReadResponse(1, 2, make([]byte, 10))))
	k.send(1, b.Frame(iwarptest.ReadResponse(5, 6, make([]byte, 11))))
	k.send(1, b.Frame(iwarptest.ReadResponse(5, 6, make([]byte, 11))))
	all, _, _ := events(t, out.b, nil)
	if got, want := brief(all),
		"1 a RDMA Read Response 99 partial; 2 b RDMA Read Request 28; 3 b RDMA Read Request 28; "+
			"4 a RDMA Read Response 10 answers 2; 5 a RDMA Read Response 11 answers 3; 6 a broke RDMAP-5.2-01 at "+
			"181; 6 a RDMA Read Response 11; closed end of capture"; !strings.HasPrefix(got,
		want[:120]) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if v := of[*analysis.Verdict](all); len(v) != 1 || v[0].Rule != "RDMAP-5.2-01" || v[0].Frame != 6 {
		t.Errorf("verdicts: %s", brief(all))
	}
}

// TestNotIWARP: other traffic is left alone, also if it looks a little like it.
func TestNotIWARP(t *testing.T) {
	out := ownOut()
	for i, b := range [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
		make([]byte, 1400),
		bytes.Repeat([]byte{0x00, 0x20, 0x41, 0x40}, 300),
		bytes.Repeat([]byte{0x00, 0x10, 0x41, 0x43, 0, 0}, 300),
		[]byte("MPA ID Re"),
		[]byte("MPA ID Rex Frame and more"),
	} {
		for _, mid := range []bool{false, true} {
			k := newTalk(out)
			k.port[0] = uint16(100 + i)
			if mid {
				k.port[0] += 100
			} else {
				k.open()
			}
			for range 700 {
				k.send(0, b)
				k.send(1, b)
			}
			k.close()
		}
	}
	all, r, err := events(t, out.b, nil)
	if err != nil || len(all) != 0 || r.Stats().Conns != 12 || r.Stats().IWARP != 0 {
		t.Errorf("%v, %+v: %s", err, r.Stats(), brief(all))
	}
}

func TestStartupAfterOtherTraffic(t *testing.T) {
	for _, lines := range []int{1, 2000} {
		out := ownOut()
		k := newTalk(out)
		k.open()
		for range lines {
			k.send(0, []byte("a line of text that is not MPA\n"))
			k.send(1, []byte("ok\n"))
		}
		a := new(iwarptest.Framer)
		k.send(0, iwarptest.Request(iwarptest.FlagC, 1, nil))
		k.send(1, iwarptest.Reply(iwarptest.FlagC, 1, nil))
		k.send(0, a.Frame(iwarptest.Send(1, []byte("hello"))))
		k.close()
		all, _, _ := events(t, out.b, nil)
		if got := ops(all); got != "Send 5 #1" || len(of[*analysis.Negotiated](all)) != 1 {
			t.Errorf("%d lines: %s", lines, brief(all))
		}
		noVerdicts(t, all)
	}
}

func TestRejected(t *testing.T) {
	out := ownOut()
	k := newTalk(out)
	k.start(iwarptest.FlagC, iwarptest.FlagC|iwarptest.FlagR)
	k.send(0, []byte("TCP is the ULP's again"))
	k.close()
	all, _, _ := events(t, out.b, nil)
	n := of[*analysis.Negotiated](all)
	if len(n) != 1 || n[0].Accepted || len(of[*analysis.Message](all)) != 0 {
		t.Errorf("%s", brief(all))
	}
	noVerdicts(t, all)
}

func TestRequestNotCaptured(t *testing.T) {
	out := ownOut()
	k := newTalk(out)
	a, b := new(iwarptest.Framer), &iwarptest.Framer{Markers: true}
	k.send(1, iwarptest.Reply(iwarptest.FlagC, 1, nil))
	k.send(0, a.Frame(iwarptest.Send(1, []byte("hello"))))
	for _, x := range sends(b, 1, 9, 300) {
		k.send(1, x)
	}
	k.close()
	all, _, _ := events(t, out.b, nil)
	if got := len(of[*analysis.Message](all)); got != 10 {
		t.Errorf("%d messages: %s", got, brief(all))
	}
	noVerdicts(t, all)
}

func TestHints(t *testing.T) {
	text := []byte("rdma-ping-0: ABCDEFG")
	nvme := make([]byte, 32)
	nvme[2], nvme[4], nvme[6] = 1, 32, 31
	rpc := append([]byte{1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 0}, make([]byte, 60)...)
	smb := []byte{0, 1, 0, 1, 0, 0, 10, 0, 0, 16, 0, 0, 0, 16, 0, 0, 0, 0, 2, 0}
	connect := append([]byte{0x7f, 0x40, 0, 0, 1}, make([]byte, 59)...)
	iser := append([]byte{0x20, 0x11}, make([]byte, 26)...)
	for want, x := range map[string]struct{ pd, send, write []byte }{
		"rping":      {write: text},
		"NVMe/RDMA":  {pd: nvme, send: connect},
		"NFS/RDMA":   {send: rpc},
		"SMB Direct": {send: smb},
		"iSER":       {send: iser},
		"perftest":   {send: append([]byte("6.06"), make([]byte, 12)...)},
		"":           {pd: []byte("active"), send: []byte("hello")},
	} {
		out := ownOut()
		k := newTalk(out)
		k.open()
		k.send(0, iwarptest.Request(iwarptest.FlagC, 1, x.pd))
		k.send(1, iwarptest.Reply(iwarptest.FlagC, 1, nil))
		f := new(iwarptest.Framer)
		if x.write != nil {
			k.send(0, f.Frame(iwarptest.Write(1, 2, x.write)))
		}
		if x.send != nil {
			k.send(0, f.Frame(iwarptest.Send(1, x.send)))
		}
		all, _, _ := events(t, out.b, nil)
		var names []string
		for _, h := range of[*analysis.Hint](all) {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("hints %q, want %q", got, want)
		}
	}
}

// TestReplyNotCaptured: FPDUs of both ends are found when the Reply is missing, and
// when a hole is where it was.
func TestReplyNotCaptured(t *testing.T) {
	for _, markers := range []bool{false, true} {
		for _, hole := range []bool{false, true} {
			out := ownOut()
			k := newTalk(out)
			k.open()
			k.send(0, iwarptest.Request(iwarptest.FlagC, 1, nil))
			if hole {
				k.skip(1, iwarptest.Reply(iwarptest.FlagC, 1, nil))
			}
			a, b := &iwarptest.Framer{Markers: markers}, new(iwarptest.Framer)
			for i, x := range sends(a, 1, 30, 200) {
				k.send(0, x)
				if hole {
					k.send(1, b.Frame(iwarptest.Send(uint32(i+1), nil)))
				}
			}
			k.close()
			all, _, err := events(t, out.b, nil)
			want := 30
			if hole {
				want = 60
			}
			if err != nil || len(of[*analysis.Message](all)) != want {
				t.Errorf("markers %t, hole %t: %v, %d messages\n%s", markers, hole, err,
					len(of[*analysis.Message](all)), anomalies(all))
			}
			noVerdicts(t, all)
		}
	}
}

// TestHostileOctets: octets that look like FPDUs everywhere take little time.
func TestHostileOctets(t *testing.T) {
	for _, mid := range []bool{false, true} {
		out := ownOut()
		k := newTalk(out)
		if !mid {
			k.start(iwarptest.FlagM, iwarptest.FlagM)
		}
		x := bytes.Repeat([]byte{0xff, 0xf0, 0x41, 0x40}, 360)
		for d := 4; d < 512; d += 4 {
			copy(x[d:], []byte{0, 0, byte(d >> 8), byte(d)})
			x[d+2] = 0x41
		}
		for range 3000 {
			k.send(0, x)
			k.send(1, x)
		}
		if _, _, err := events(t, out.b, nil); err != nil {
			t.Error(err)
		}
	}
}
