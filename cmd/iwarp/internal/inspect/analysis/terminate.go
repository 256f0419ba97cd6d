package analysis

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/go-iwarp/iwarp/protocol"
	"github.com/go-iwarp/iwarp/rdmap"
)

// The header control bits of a Terminate
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.8).
const (
	terminateM        = 0x8000
	terminateD        = 0x4000
	terminateR        = 0x2000
	terminateReserved = 0x1fff
)

// terminate decodes and judges a Terminate.
func (r *Reader) terminate(c *tcpConn, i int, f *frameRef, m *Message, s *slot) {
	d := c.half[i].m.d
	d.ended, d.endedAt = f.latest, true
	b := s.payload
	t, _, err := rdmap.ParseTerminate(b)
	if m.Cut && len(b) >= rdmap.MinTerminateLen {
		// The control word tells what it is about; what is echoed is not all here.
		b = append(bytes.Clone(b[:2]), 0, 0)
		t, _, err = rdmap.ParseTerminate(b)
		b = s.payload
	}
	if err != nil || m.Partial {
		if !m.Partial && !m.Cut {
			r.blame(c, i, f, "RDMAP-4.8-01", 0, "a Terminate header of at least 4 octets", fmt.Sprintf("%d", m.Length))
		}
		return
	}
	word := binary.BigEndian.Uint32(b)
	out := &Terminate{
		Layer: uint8(t.Code.Layer()), Type: t.Code.Type(), Code: t.Code.Number(),
		M: word&terminateM != 0, D: word&terminateD != 0, R: word&terminateR != 0, SegmentLength: -1,
	}
	m.Terminate = out
	if !r.opt.NoVerdicts && !m.Cut {
		r.checkTerminate(c, i, f, b, word, t.Mirrored)
	}
	e := t.Err()
	e.Remote = false
	out.Text = e.Error()
	o := t.Offender
	if o == nil {
		return
	}
	out.SegmentLength = int(o.SegmentLength)
	out.DDPHeader, out.RDMAPHeader = Hex(o.DDPHeader), Hex(o.RDMAPHeader)
	r.offender(c, i, f, out, o, t.Code)
}

// checkTerminate judges the control word and whether what follows agrees with it.
func (r *Reader) checkTerminate(c *tcpConn, i int, f *frameRef, b []byte, word uint32, mirrored bool) {
	const at = lengthLen + 18 + 2
	rest := b[rdmap.MinTerminateLen:]
	if v := word & terminateReserved; v != 0 {
		seen := fmt.Sprintf("%#04x", v)
		if mirrored {
			seen += ": M, D and R at the wrong end of their octet"
		}
		r.blame(c, i, f, "RDMAP-4.8-04", at, "Reserved 0", seen)
	}
	want := 0
	if word&(terminateM|terminateD) != 0 {
		want = 2
	}
	if word&terminateD != 0 && len(rest) > want {
		want += 18
		if rest[2]&0x80 != 0 {
			want -= 4
		}
	}
	if word&terminateR != 0 {
		want += rdmap.ReadRequestLen
	}
	if len(rest) != want {
		r.blame(c, i, f, "RDMAP-4.8-01", at+2,
			fmt.Sprintf("%d octets behind the control word: M=%d D=%d R=%d", want, word>>15&1, word>>14&1, word>>13&1),
			fmt.Sprintf("%d octets", len(rest)))
	}
	if code := protocol.Code(word >> 16); !code.Defined() {
		r.blame(c, i, f, "RDMAP-4.8-02", at-2, "an error that the RFCs define", code.String())
	}
}

// offender finds the segment that a Terminate blames.
func (r *Reader) offender(c *tcpConn, i int, f *frameRef, out *Terminate, o *protocol.Offender, code protocol.Code) {
	other := c.half[1-i].m.d
	var found *recentSegment
	for k := range min(other.segments, recentSegments) {
		s := &other.recent[(other.segments-1-k)%recentSegments]
		if len(o.DDPHeader) > 0 && bytes.Equal(s.header[:s.n], o.DDPHeader) {
			found = s
			break
		}
	}
	if found == nil {
		return
	}
	out.OffenderFrame = found.frame
	if int(o.SegmentLength) != found.size {
		r.blame(c, i, f, "RDMAP-4.8-05", lengthLen+18+4,
			fmt.Sprintf("DDP Segment Length %d, of the segment in frame %d", found.size, found.frame),
			fmt.Sprintf("%d", o.SegmentLength))
	}
	if found.fits && code.Layer() == protocol.LayerDDP && code.Type() == 1 && code != protocol.DDPTaggedVersion {
		r.anomaly(c, i, AnomalyContradiction, f.off, uint64(f.length),
			fmt.Sprintf("%s is what it says of frame %d, an RDMA Read Response as the Read Request asked for", code,
				found.frame))
	}
}
