package analysis

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/rdmap"
)

// The names in [Hint].
const (
	HintRping     = "rping"
	HintPerftest  = "perftest"
	HintSMBDirect = "SMB Direct"
	HintNFS       = "NFS/RDMA"
	HintISER      = "iSER"
	HintNVMe      = "NVMe/RDMA"
)

func (r *Reader) hint(c *tcpConn, i int, at span, name, why string) {
	an := c.an
	if slices.Contains(an.hints, name) {
		return
	}
	an.hints = append(an.hints, name)
	r.emit(&Hint{Head: c.headOf(EventHint, i, at), Name: name, Why: why})
}

// hintStartup looks at Private Data.
func (r *Reader) hintStartup(c *tcpConn, i int, s *mpa.Startup, at span) {
	pd := s.ULPData()
	be := binary.BigEndian
	switch {
	case len(pd) >= 8 && be.Uint32(pd) == 0xf6ab0e18 && pd[4] == 1:
		r.hint(c, i, at, HintNFS, "Private Data with the format identifier of RPC-over-RDMA (RFC 8797 section 4)")
	case len(pd) == 32 && binary.LittleEndian.Uint16(pd) == 0 && s.Kind == mpa.Request &&
		binary.LittleEndian.Uint16(pd[4:]) > 0 && binary.LittleEndian.Uint16(pd[6:]) > 0 && zeros(pd[10:]):
		r.hint(c, i, at, HintNVMe,
			fmt.Sprintf("Private Data of 32 octets as NVMe/RDMA has them: queue %d of %d entries",
				binary.LittleEndian.Uint16(pd[2:]), binary.LittleEndian.Uint16(pd[4:])))
	}
}

func zeros(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// hintMessage looks at the first Send of each end, and at the data of rping.
func (r *Reader) hintMessage(c *tcpConn, i int, m *Message, s *slot) {
	op := rdmap.Opcode(m.Opcode)
	b := s.payload
	at := span{frame: m.Frame, time: m.Time.UnixNano()}
	if !op.Payload() || m.Partial {
		return
	}
	if op == rdmap.OpcodeWrite || op == rdmap.OpcodeReadResponse {
		if bytes.HasPrefix(b, []byte("rdma-ping-")) {
			r.hint(c, i, at, HintRping, op.String()+` with the data "rdma-ping-"`)
		}
		return
	}
	if c.half[i].m.d.sends > 0 {
		return
	}
	le, be := binary.LittleEndian, binary.BigEndian
	n := m.Length
	switch {
	case n == 16 && len(b) == 16 && bytes.IndexByte(b, '.') == 1 && b[0] >= '0' && b[0] <= '9' && zeros(b[8:]):
		r.hint(c, i, at, HintPerftest, fmt.Sprintf("the first Send is a version, %q", bytes.TrimRight(b[:8], "\x00")))
	case n == 16 && len(b) == 16 && be.Uint64(b) != 0 && be.Uint64(b)>>48 == 0 && be.Uint32(b[8:]) != 0 &&
		be.Uint32(b[12:]) > 0 && be.Uint32(b[12:]) <= 1<<24:
		r.hint(c, i, at, HintRping,
			fmt.Sprintf("the first Send has 16 octets: an address, a key, and the size %d", be.Uint32(b[12:])))
	case n == 20 && len(b) == 20 && le.Uint16(b) == 0x0100 && le.Uint16(b[2:]) == 0x0100 && le.Uint16(b[4:]) == 0:
		r.hint(c, i, at, HintSMBDirect,
			fmt.Sprintf("the first Send is a Negotiate Request of version 1.0 with %d credits", le.Uint16(b[6:])))
	case n == 32 && len(b) == 32 && le.Uint16(b) == 0x0100 && le.Uint16(b[2:]) == 0x0100 && le.Uint16(b[4:]) == 0x0100:
		r.hint(c, i, at, HintSMBDirect, "the first Send is a Negotiate Response of version 1.0")
	case n == 64 && len(b) == 64 && b[0] == 0x7f && b[4] == 0x01:
		r.hint(c, i, at, HintNVMe, "the first Send is a Connect command of NVMe over Fabrics")
	case n >= 28 && len(b) >= 28 && be.Uint32(b[4:]) == 1 && be.Uint32(b[8:]) > 0 && be.Uint32(b[8:]) <= 1<<16 &&
		be.Uint32(b[12:]) <= 4:
		r.hint(c, i, at, HintNFS,
			fmt.Sprintf("the first Send has a header of RPC-over-RDMA version 1 with %d credits", be.Uint32(b[8:])))
	case n == 28 && len(b) == 28 && (b[0]>>4 == 2 || b[0]>>4 == 3) && zeros(b[12:]):
		r.hint(c, i, at, HintISER, "the first Send is an iSER Hello")
	case n >= 76 && len(b) >= 76 && b[0]>>4 == 1 && (b[28]&0x3f == 0x03 || b[28]&0x3f == 0x23):
		r.hint(c, i, at, HintISER, "the first Send is an iSER header and an iSCSI Login")
	}
}
