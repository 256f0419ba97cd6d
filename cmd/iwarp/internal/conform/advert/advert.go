// Package advert is what the kit and its target must agree on: the regions of a
// target, what they hold at first, and the message that tells of them
// (docs/conform.md).
package advert

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// Kinds of region that a target advertises.
const (
	All       = 1 + iota // read, write, atomic; of this stream
	Read                 // read only
	Write                // write only
	None                 // no right
	ReadWrite            // no atomic
	Large                // read only, 256 KiB
	Gone                 // an STag that was
	Foreign              // of another protection domain
	Shared               // of the whole domain, all rights: no peer can invalidate it
	Victim               // all rights; for Send with Invalidate
	High                 // all rights, ends just below 2^64
	Odd                  // all rights, memory not aligned
	Kinds                // one more than the last
)

// Region is what an advert says of a region.
type Region struct {
	Kind byte
	STag uint32
	TO   uint64
	Size uint32 // in octets
}

// Advert is a target's first message.
type Advert struct {
	// RecvDepth and RecvSize are the target's receive buffers: how many, and of how
	// many octets.
	RecvDepth int
	RecvSize  int
	// ID is the connection's.
	ID uint64
	// PDLen and PDCRC are length and CRC32c of the Private Data that the target got.
	PDLen int
	PDCRC uint32
	// Regions are by kind; one that the target does not have is zero.
	Regions [Kinds]Region
}

const (
	magic     = "IWCT\x01"
	headLen   = 32
	regionLen = 18
)

// AppendTo appends the message.
//
//	"IWCT" 1(8) | 0(8) | receive depth(16) | receive size(32) | connection(64) |
//	length of Private Data(16) | its CRC32c(32) | regions(16) | 0(32) |
//	for each: kind(8) 0(8) STag(32) TO(64) length(32)
func (a *Advert) AppendTo(b []byte) []byte {
	be := binary.BigEndian
	b = append(append(b, magic...), 0)
	b = be.AppendUint16(b, uint16(a.RecvDepth))
	b = be.AppendUint32(b, uint32(a.RecvSize))
	b = be.AppendUint64(b, a.ID)
	b = be.AppendUint16(b, uint16(a.PDLen))
	b = be.AppendUint32(b, a.PDCRC)
	count := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0)
	n := uint16(0)
	for _, r := range a.Regions {
		if r.Kind == 0 {
			continue
		}
		n++
		b = append(b, r.Kind, 0)
		b = be.AppendUint32(b, r.STag)
		b = be.AppendUint64(b, r.TO)
		b = be.AppendUint32(b, r.Size)
	}
	be.PutUint16(b[count:], n)
	return b
}

// Parse reads a message, and returns nil if it is no advert. Kinds that are not
// known are left out.
func Parse(b []byte) *Advert {
	if len(b) < headLen || !strings.HasPrefix(string(b), magic) {
		return nil
	}
	be := binary.BigEndian
	a := &Advert{
		RecvDepth: int(be.Uint16(b[6:])), RecvSize: int(be.Uint32(b[8:])), ID: be.Uint64(b[12:]),
		PDLen: int(be.Uint16(b[20:])), PDCRC: be.Uint32(b[22:]),
	}
	n := int(be.Uint16(b[26:]))
	for r := b[headLen:]; n > 0 && len(r) >= regionLen; n, r = n-1, r[regionLen:] {
		if k := r[0]; k > 0 && k < Kinds {
			a.Regions[k] = Region{Kind: k, STag: be.Uint32(r[2:]), TO: be.Uint64(r[6:]), Size: be.Uint32(r[14:])}
		}
	}
	return a
}

// Fill makes b what a region of this kind holds at first.
func Fill(kind byte, b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + int(kind)*31)
	}
}

var table = crc32.MakeTable(crc32.Castagnoli)

// Checksum is the CRC32c of b.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, table) }
