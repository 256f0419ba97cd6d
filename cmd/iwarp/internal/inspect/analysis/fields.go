package analysis

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// Fields names the octets of the frame, in their order and without gaps.
func (s *StartupFrame) Fields() []Field {
	b := s.Octets
	if len(b) < mpa.StartupHeaderLen {
		return nil
	}
	kind := "MPA " + s.Kind
	out := []Field{
		{"Key", 0, startupKeyLen, fmt.Sprintf("%q", []byte(b[:startupKeyLen])), kind},
		{
			"Flags", 16, 1, fmt.Sprintf("%#02x", b[16]),
			fmt.Sprintf("M=%d C=%d R=%d S=%d Res=%#x", bit(s.Markers), bit(s.CRC), bit(s.Reject), bit(s.Enhanced),
				s.Reserved),
		},
		{"Rev", 17, 1, fmt.Sprintf("%d", s.Revision), ""},
		{"PD_Length", 18, 2, fmt.Sprintf("%d", len(s.PrivateData)), ""},
	}
	at := mpa.StartupHeaderLen
	if e, n, err := protocol.ParseEnhanced(b[at:]); err == nil && s.Block != nil {
		w := binary.BigEndian.Uint16(b[at+2:])
		out = append(out,
			Field{
				"A B IRD", at, 2, fmt.Sprintf("%#04x", binary.BigEndian.Uint16(b[at:])),
				fmt.Sprintf("A=%d B=%d IRD=%s", b[at]>>7, b[at]>>6&1, depthText(e.IRD)),
			},
			Field{
				"C D ORD", at + 2, 2, fmt.Sprintf("%#04x", w),
				fmt.Sprintf("C=%d D=%d ORD=%s", w>>15, w>>14&1, depthText(e.ORD)),
			},
		)
		at += n
	}
	if at < len(b) {
		out = append(out, Field{"Private Data", at, len(b) - at, preview(b[at:]), ""})
	}
	return out
}

func depthText(v uint16) string {
	if v == protocol.NotNegotiated {
		return "not negotiated"
	}
	return fmt.Sprint(v)
}

func preview(b []byte) string {
	const shown = 16
	if len(b) > shown {
		return fmt.Sprintf("%x...", b[:shown])
	}
	return fmt.Sprintf("%x", b)
}

// fielder lists the fields of one FPDU.
type fielder struct {
	f    frameRef
	out  []Field
	raw  int // the next octet of Octets
	mark int // how many Markers are listed
}

// Fields names the octets of the FPDU, Markers among them, in their order and
// without gaps. Those that the capture lacks are left out.
func (p *FPDU) Fields() []Field {
	f := fielder{f: frameRef{raw: p.Octets, markers: p.Markers, length: p.Length}}
	if len(p.Markers) > 0 && p.Markers[0] == 0 {
		f.f.start = markerLen
	}
	f.add("ULPDU_Length", lengthLen,
		func(b []byte) (string, string) { return fmt.Sprint(binary.BigEndian.Uint16(b)), "" })
	size := p.Length - crcLen - markerLen*len(p.Markers) - lengthLen // with PAD
	if len(p.Octets) >= f.f.start+lengthLen {
		size = int(binary.BigEndian.Uint16(p.Octets[f.f.start:]))
	}
	f.ulpdu(p.ULPDU, size)
	if pad := -(lengthLen + size) & 3; pad > 0 {
		f.add("PAD", pad, plain16)
	}
	crc := p.CRC
	f.add("CRC", crcLen, func(b []byte) (string, string) {
		return fmt.Sprintf("0x%08x", binary.LittleEndian.Uint32(b)), crc
	})
	return f.out
}

func plain16(b []byte) (string, string) { return preview(b), "" }

// add lists the next n octets of the content, and the Markers before and among
// them.
func (f *fielder) add(name string, n int, text func([]byte) (value, note string)) {
	f.markers(f.raw)
	start, content := f.raw, make([]byte, 0, min(n, 64))
	inside := f.mark
	for k := 0; k < n; {
		if inside < len(f.f.markers) && f.f.markers[inside] == f.raw {
			f.raw += markerLen
			inside++
			continue
		}
		to := f.raw + n - k
		if inside < len(f.f.markers) {
			to = min(to, f.f.markers[inside])
		}
		if to <= f.raw || f.raw >= len(f.f.raw) {
			break
		}
		end := min(to, len(f.f.raw))
		content = append(content, f.f.raw[f.raw:end]...)
		k += end - f.raw
		f.raw = end
	}
	if len(content) == n && n > 0 {
		value, note := text(content)
		f.out = append(f.out, Field{name, start, f.raw - start, value, note})
	} else if len(content) > 0 {
		f.out = append(f.out, Field{name, start, f.raw - start, preview(content), "cut"})
	}
	for f.mark < inside {
		f.marker()
	}
}

// markers lists those that begin at an offset.
func (f *fielder) markers(at int) {
	for f.mark < len(f.f.markers) && f.f.markers[f.mark] == at && at+markerLen <= len(f.f.raw) {
		f.marker()
		f.raw += markerLen
		at = f.raw
	}
}

func (f *fielder) marker() {
	at := f.f.markers[f.mark]
	f.mark++
	if at+markerLen <= len(f.f.raw) {
		f.out = append(f.out,
			Field{
				"Marker", at, markerLen, fmt.Sprintf("%x", f.f.raw[at:at+markerLen]),
				fmt.Sprintf("FPDUPTR %d", binary.BigEndian.Uint16(f.f.raw[at+2:])),
			})
	}
}

func number(b []byte) (string, string) {
	v := uint64(0)
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
	return fmt.Sprint(v), ""
}

func hexNumber(b []byte) (string, string) { return fmt.Sprintf("0x%x", b), "" }

// ulpdu lists the headers of DDP and RDMAP and the payload.
func (f *fielder) ulpdu(b []byte, size int) {
	h, n, err := ddp.Parse(b)
	if err != nil {
		f.add("ULPDU", size, plain16)
		return
	}
	ctl := rdmap.Control(h.Control)
	op := ctl.Opcode()
	f.add("DDP control", 1, func(b []byte) (string, string) {
		return fmt.Sprintf("%#02x", b[0]), fmt.Sprintf("T=%d L=%d Rsvd=%d DV=%d", bit(h.Tagged), bit(h.Last),
			h.Reserved, h.Version)
	})
	f.add("RDMAP control", 1, func(b []byte) (string, string) {
		return fmt.Sprintf("%#02x", b[0]), fmt.Sprintf("RV=%d Rsv=%d Opcode=%d, %v", ctl.Version(), ctl.Reserved(),
			uint8(op), op)
	})
	if h.Tagged {
		f.add("STag", 4, hexNumber)
		f.add("TO", 8, hexNumber)
	} else {
		f.add("Invalidate STag", 4, hexNumber)
		f.add("QN", 4, number)
		f.add("MSN", 4, number)
		f.add("MO", 4, number)
	}
	f.rdmap(op, &h, b[n:], size-n)
}

// layout is an RDMAP header.
type layout []struct {
	name string
	n    int
	text func([]byte) (string, string)
}

var (
	readRequestLayout = layout{
		{"SinkSTag", 4, hexNumber},
		{"SinkTO", 8, hexNumber},
		{"Read size", 4, number},
		{"SrcSTag", 4, hexNumber},
		{"SrcTO", 8, hexNumber},
	}
	layouts = map[rdmap.Opcode]layout{
		rdmap.OpcodeReadRequest:        readRequestLayout,
		rdmap.OpcodeImmediate:          {{"Immediate Data", 8, hexNumber}},
		rdmap.OpcodeImmediateSolicited: {{"Immediate Data", 8, hexNumber}},
		rdmap.OpcodeAtomicRequest: {
			{
				"AOpCode", 4,
				func(b []byte) (string, string) { return fmt.Sprint(b[3] & 0xf), rdmap.AtomicOp(b[3] & 0xf).String() },
			},
			{"Request Identifier", 4, number},
			{"STag", 4, hexNumber},
			{"TO", 8, hexNumber},
			{"Add or Swap Data", 8, hexNumber},
			{"Add or Swap Mask", 8, hexNumber},
			{"Compare Data", 8, hexNumber},
			{"Compare Mask", 8, hexNumber},
		},
		rdmap.OpcodeAtomicResponse: {
			{"Original Request Identifier", 4, number}, {"Original Remote Data Value", 8, hexNumber},
		},
	}
)

func (f *fielder) rdmap(op rdmap.Opcode, h *ddp.Header, b []byte, size int) {
	if h.Tagged == op.Tagged() && (h.Tagged || h.MO == 0) {
		if op == rdmap.OpcodeTerminate {
			size = f.terminate(b, size)
		}
		for _, x := range layouts[op] {
			if size < x.n {
				break
			}
			f.add(x.name, x.n, x.text)
			size -= x.n
		}
	}
	if size > 0 {
		f.add("Payload", size, plain16)
	}
}

// terminate lists a Terminate header and gives the octets that are left.
func (f *fielder) terminate(b []byte, size int) int {
	if len(b) < rdmap.MinTerminateLen {
		return size
	}
	word := binary.BigEndian.Uint32(b)
	f.add("Terminate control", rdmap.MinTerminateLen, func([]byte) (string, string) {
		return fmt.Sprintf("0x%08x", word), fmt.Sprintf("%v, M=%d D=%d R=%d Reserved=%#x", protocol.Code(word>>16),
			word>>15&1, word>>14&1, word>>13&1, word&terminateReserved)
	})
	size -= rdmap.MinTerminateLen
	b = b[rdmap.MinTerminateLen:]
	if t, _, err := rdmap.ParseTerminate(binary.BigEndian.AppendUint32(nil, word)); err == nil && t.Mirrored {
		word |= uint32(bits.Reverse8(uint8(word>>8))) << 8
	}
	if word&(terminateM|terminateD) == 0 || size < 2 || len(b) < 3 {
		return size
	}
	f.add("DDP Segment Length", 2, number)
	size -= 2
	n := ddp.UntaggedHeaderLen
	if b[2]&0x80 != 0 {
		n = ddp.TaggedHeaderLen
	}
	if word&terminateD == 0 || size < n {
		return size
	}
	f.add("Terminated DDP header", n, plain16)
	size -= n
	if word&terminateR != 0 && size >= rdmap.ReadRequestLen {
		f.add("Terminated RDMA header", rdmap.ReadRequestLen, plain16)
		size -= rdmap.ReadRequestLen
	}
	return size
}
