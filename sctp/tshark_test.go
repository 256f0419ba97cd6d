package sctp_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/sctp"
)

// pcap collects packets as IPv4 and UDP, with the port that SCTP has there (RFC 6951).
type pcap struct {
	mu sync.Mutex
	b  bytes.Buffer
	n  uint32
}

const encapsulation = 9899

func newPcap() *pcap {
	p := &pcap{}
	const linkTypeRaw = 101
	for _, v := range []uint32{0xa1b2c3d4, 2<<16 | 4, 0, 0, 65535, linkTypeRaw} {
		p.b.Write(binary.BigEndian.AppendUint32(nil, v))
	}
	return p
}

// tap returns a tap for what one end sends.
func (p *pcap) tap(from, to byte) func([]byte) []byte {
	return func(packet []byte) []byte {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 20 + 8 + len(packet)
		p.n++
		for _, v := range []uint32{p.n, 0, uint32(n), uint32(n)} {
			p.b.Write(binary.BigEndian.AppendUint32(nil, v))
		}
		ip := []byte{0x45, 0, byte(n >> 8), byte(n), 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to}
		var sum uint32
		for i := 0; i < len(ip); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
		p.b.Write(ip)
		for _, v := range []uint16{encapsulation, encapsulation, uint16(8 + len(packet)), 0} {
			p.b.Write(binary.BigEndian.AppendUint16(nil, v))
		}
		p.b.Write(packet)
		return packet
	}
}

// tshark is a second judge of what goes over the wire: the Adaptation Layer Indication in INIT and
// INIT ACK, as many streams in both directions, DATA chunks that are unordered and whole with the
// PPIDs of DDP, and CRC32cs.
// Shows: SCTP-5.1-01, SCTP-5.1-02, SCTP-5.2-01, SCTP-8-01, SCTP-9-02, SCTP-10-01, SCTP-6.6-01, SCTP-6.6-02
func TestTshark(t *testing.T) {
	bin, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("no tshark (Debian package tshark)")
	}
	ctx := testContext(t)
	capture := newPcap()
	client, server := packetConn(t, 0, capture.tap(1, 2)), packetConn(t, 0, capture.tap(2, 1))
	assoc, l := associate(t, client, server, &sctp.Config{MTU: 1452, Streams: 20}, nil)
	ch := accept(ctx, l)
	a, err := assoc.Dial(ctx, &iwarp.Config{PrivateData: []byte("who I am")})
	check(t, "Dial", err)
	b := <-ch
	check(t, "Accept", b.err)
	mr, err := b.c.NewMR(make([]byte, 20_000), iwarp.RemoteWrite|iwarp.RemoteRead)
	check(t, "NewMR", err)
	defer mr.Close()
	check(t, "Write", a.RDMAWrite(ctx, pattern(20_000), mr.Remote()))
	check(t, "Read", a.RDMARead(ctx, make([]byte, 20_000), mr.Remote()))
	check(t, "Send", a.Send(ctx, []byte("hello")))
	wantRecv(t, b.c, "hello")
	closeBoth(t, a, b.c)
	check(t, "end of the association", assoc.Close())

	file := filepath.Join(t.TempDir(), "sctp.pcap")
	capture.mu.Lock()
	check(t, "WriteFile", os.WriteFile(file, capture.b.Bytes(), 0o600))
	capture.mu.Unlock()
	fields := func(filter string, names ...string) []string {
		args := []string{"-r", file, "-o", "sctp.checksum:TRUE", "-Y", filter, "-T", "fields", "-E", "aggregator= "}
		for _, n := range names {
			args = append(args, "-e", n)
		}
		out, err := exec.CommandContext(ctx, bin, args...).Output()
		check(t, "tshark", err)
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	for filter, want := range map[string]string{
		"sctp.chunk_type == 1": "0x00000001\t20\t20", "sctp.chunk_type == 2": "0x00000001\t20\t20",
	} {
		got := fields(filter, "sctp.adaptation_layer_indication", "sctp.init_nr_out_streams", "sctp.init_nr_in_streams")
		if filter == "sctp.chunk_type == 2" {
			got = fields(filter,
				"sctp.adaptation_layer_indication", "sctp.initack_nr_out_streams", "sctp.initack_nr_in_streams")
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", filter, got, want)
		}
	}
	if bad := fields("sctp.checksum.status == 0 || _ws.malformed", "frame.number"); !slices.Equal(bad, []string{""}) {
		t.Errorf("packets %v are malformed or have a wrong CRC32c", bad)
	}
	const ordered = "sctp.data_u_bit == 0 || sctp.data_b_bit == 0 || sctp.data_e_bit == 0"
	if bad := fields(ordered, "frame.number"); !slices.Equal(bad, []string{""}) {
		t.Errorf("packets %v have chunks that are ordered, or parts of a message", bad)
	}
	kinds := make(map[string]int)
	for _, line := range fields("sctp.chunk_type == 0", "sctp.data_payload_proto_id") {
		for _, ppid := range strings.Fields(line) {
			kinds[ppid]++
		}
	}
	// Initiate, Accept, two times Terminate; and segments, nothing else.
	if kinds["17"] != 4 || kinds["16"] < 30 || len(kinds) != 2 {
		t.Errorf("chunks by PPID: %v", kinds)
	}
}
