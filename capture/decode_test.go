package capture_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// What follows reads captures back. It is written from the formats' documents and
// shares nothing with the writer.

type block struct {
	kind uint32
	body []byte
}

// readBlocks takes a pcapng file apart and checks its framing.
func readBlocks(b []byte) ([]block, error) {
	var out []block
	for at := 0; at < len(b); {
		if len(b)-at < 12 {
			return out, fmt.Errorf("octet %d: %d octets left", at, len(b)-at)
		}
		kind, n := binary.LittleEndian.Uint32(b[at:]), int(binary.LittleEndian.Uint32(b[at+4:]))
		if n%4 != 0 || n < 12 || n > len(b)-at {
			return out, fmt.Errorf("octet %d: block of %d octets", at, n)
		}
		if tail := binary.LittleEndian.Uint32(b[at+n-4:]); int(tail) != n {
			return out, fmt.Errorf("octet %d: block of %d octets says %d at its end", at, n, tail)
		}
		out = append(out, block{kind, b[at+8 : at+n-4]})
		at += n
	}
	return out, nil
}

type record struct {
	time    time.Time
	data    []byte
	length  int
	dir     byte
	comment string
}

type recording struct {
	link              uint16
	packets           []record
	received, dropped uint64
}

func options(b []byte) (map[uint16][]byte, error) {
	out := map[uint16][]byte{}
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, fmt.Errorf("option cut")
		}
		code, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		padded := (n + 3) &^ 3
		if len(b) < 4+padded {
			return nil, fmt.Errorf("option %d of %d octets cut", code, n)
		}
		if code == 0 {
			if len(b) != 4 {
				return nil, fmt.Errorf("%d octets after the last option", len(b)-4)
			}
			return out, nil
		}
		out[code] = b[4 : 4+n]
		b = b[4+padded:]
	}
	return out, nil
}

func readCapture(b []byte) (*recording, error) {
	blocks, err := readBlocks(b)
	if err != nil {
		return nil, err
	}
	if len(blocks) < 2 || blocks[0].kind != 0x0a0d0d0a || blocks[1].kind != 1 {
		return nil, fmt.Errorf("no section and interface at the start")
	}
	if m := binary.LittleEndian.Uint32(blocks[0].body); m != 0x1a2b3c4d {
		return nil, fmt.Errorf("magic %#x", m)
	}
	rec := &recording{link: binary.LittleEndian.Uint16(blocks[1].body)}
	o, err := options(blocks[1].body[8:])
	if err != nil || !bytes.Equal(o[9], []byte{9}) {
		return nil, fmt.Errorf("interface options %v, %w", o, err)
	}
	for _, bl := range blocks[2:] {
		switch bl.kind {
		case 6:
			p, err := readPacket(bl.body)
			if err != nil {
				return nil, err
			}
			rec.packets = append(rec.packets, p)
		case 5:
			o, err := options(bl.body[12:])
			if err != nil {
				return nil, err
			}
			rec.received, rec.dropped = binary.LittleEndian.Uint64(o[4]), binary.LittleEndian.Uint64(o[5])
		default:
			return nil, fmt.Errorf("block type %d", bl.kind)
		}
	}
	return rec, nil
}

func readPacket(b []byte) (record, error) {
	le := binary.LittleEndian
	n := int(le.Uint32(b[12:]))
	padded := (n + 3) &^ 3
	if le.Uint32(b) != 0 || len(b) < 20+padded {
		return record{}, fmt.Errorf("packet of %d octets in a block of %d", n, len(b))
	}
	o, err := options(b[20+padded:])
	if err != nil {
		return record{}, err
	}
	p := record{
		time: time.Unix(0, int64(uint64(le.Uint32(b[4:]))<<32|uint64(le.Uint32(b[8:])))),
		data: b[20 : 20+n], length: int(le.Uint32(b[16:])), comment: string(o[1]),
	}
	if f := o[2]; f != nil {
		p.dir = f[0]
	}
	return p, nil
}

type tcpSegment struct {
	src, dst netip.AddrPort
	seq, ack uint32
	flags    byte
	payload  []byte
}

const (
	fin = 1
	syn = 2
	rst = 4
	psh = 8
	ack = 16
)

func naiveChecksum(parts ...[]byte) uint16 {
	b := bytes.Join(parts, nil)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
		if sum > 0xffff {
			sum = sum - 0xffff
		}
	}
	return ^uint16(sum)
}

// readSegment takes an IP packet apart and checks lengths and checksums.
func readSegment(b []byte) (tcpSegment, error) {
	be := binary.BigEndian
	var s tcpSegment
	var src, dst, tcp []byte
	switch b[0] >> 4 {
	case 4:
		if b[0] != 0x45 || int(be.Uint16(b[2:])) != len(b) || b[9] != 6 || naiveChecksum(b[:20]) != 0 {
			return s, fmt.Errorf("bad IPv4 header %x of a packet of %d octets", b[:20], len(b))
		}
		src, dst, tcp = b[12:16], b[16:20], b[20:]
	case 6:
		if int(be.Uint16(b[4:])) != len(b)-40 || b[6] != 6 {
			return s, fmt.Errorf("bad IPv6 header %x of a packet of %d octets", b[:40], len(b))
		}
		src, dst, tcp = b[8:24], b[24:40], b[40:]
	default:
		return s, fmt.Errorf("IP version %d", b[0]>>4)
	}
	pseudo := append(append(bytes.Clone(src), dst...), 0, 0, 0, 6)
	pseudo = be.AppendUint32(pseudo, uint32(len(tcp)))
	if c := naiveChecksum(pseudo, tcp); c != 0 {
		return s, fmt.Errorf("bad TCP checksum, off by %#x", c)
	}
	from, _ := netip.AddrFromSlice(src)
	to, _ := netip.AddrFromSlice(dst)
	s.src, s.dst = netip.AddrPortFrom(from, be.Uint16(tcp)), netip.AddrPortFrom(to, be.Uint16(tcp[2:]))
	s.seq, s.ack, s.flags = be.Uint32(tcp[4:]), be.Uint32(tcp[8:]), tcp[13]
	s.payload = tcp[int(tcp[12]>>4)*4:]
	return s, nil
}

// stream is one direction, put together again.
type stream struct {
	isn      uint32
	octets   []byte
	fin, rst bool
	sizes    []int // of the segments
}

// follow checks that a recording is one TCP connection, and a sound one: handshake,
// sequence numbers without hole or overlap, acknowledgements of all that stands
// before. opener is the stream of the end that sent SYN.
func follow(t *testing.T, rec *recording) (opener, other *stream) {
	t.Helper()
	var client netip.AddrPort
	var streams [2]*stream
	for i, p := range rec.packets {
		s, err := readSegment(p.data)
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		if i == 0 {
			client = s.src
		}
		me := 0
		if s.src != client {
			me = 1
		}
		st, peer := streams[me], streams[1-me]
		if st == nil {
			want := byte(syn)
			if me == 1 {
				want |= ack
			}
			if s.flags != want || i != me || len(s.payload) > 0 {
				t.Fatalf("packet %d starts direction %d with flags %#x", i, me, s.flags)
			}
			st = &stream{isn: s.seq}
			streams[me] = st
		} else if next := st.isn + 1 + uint32(len(st.octets)); s.seq != next {
			t.Fatalf("packet %d: sequence number %d, want %d", i, s.seq, next)
		}
		if s.flags&ack != 0 {
			if want := peer.isn + 1 + uint32(len(peer.octets)); s.ack != want && (!peer.fin || s.ack != want+1) {
				t.Fatalf("packet %d: acknowledges %d, want %d", i, s.ack, want)
			}
		}
		if (st.fin && s.flags&rst == 0) || st.rst || peer != nil && peer.rst {
			t.Fatalf("packet %d comes after the end", i)
		}
		st.octets = append(st.octets, s.payload...)
		if len(s.payload) > 0 {
			st.sizes = append(st.sizes, len(s.payload))
		}
		st.fin = st.fin || s.flags&fin != 0
		st.rst = st.rst || s.flags&rst != 0
	}
	if streams[1] == nil {
		t.Fatalf("the recording has %d packets and no handshake", len(rec.packets))
	}
	return streams[0], streams[1]
}
