package capture

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"
)

// LinkType says what the packets of a capture start with
// (https://www.tcpdump.org/linktypes.html).
type LinkType uint16

// The link types.
const (
	LinkEthernet LinkType = 1   // an Ethernet header
	LinkRaw      LinkType = 101 // an IPv4 or IPv6 header
)

// Direction says how a packet went by the place of the capture.
type Direction uint8

// The directions.
const (
	DirectionUnknown Direction = iota
	Inbound
	Outbound
)

// Packet is one packet of a capture.
type Packet struct {
	// Time is stored in nanoseconds since 1970. Times before are stored as 1970.
	Time time.Time
	// Data is the packet's octets, from its link header on.
	Data []byte
	// Length is the packet's length on the wire in octets, if Data is less than
	// all of it; 0 means len(Data).
	Length    int
	Direction Direction
	// Comment is shown beside the packet; at most 65535 octets.
	Comment string

	// Interface is the packet's interface, an index of [FileInfo].Interfaces, and
	// Link that interface's link type. A Reader sets them. A [Writer] has one
	// interface, and ignores them.
	Interface int
	Link      LinkType
}

// Types of pcapng blocks and options
// (https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html).
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockStats     = 5
	blockPacket    = 6

	byteOrderMagic = 0x1a2b3c4d

	optEnd         = 0
	optComment     = 1
	optSectionApp  = 4 // shb_userappl
	optIfName      = 2
	optIfTSResol   = 9
	optPacketFlags = 2 // epb_flags
	optStatsRecv   = 4 // isb_ifrecv
	optStatsDrop   = 5 // isb_ifdrop
)

// application is what captures give as their maker.
const application = "github.com/go-iwarp/iwarp"

// Writer writes a capture in pcapng: one section, in little-endian octet order,
// with one interface. It has no buffer: each call makes one Write. It is not for
// several goroutines at once.
type Writer struct {
	w   io.Writer
	buf []byte
	err error
}

// NewWriter starts a capture of packets with the given link type.
func NewWriter(w io.Writer, link LinkType) (*Writer, error) {
	pw := &Writer{w: w}
	return pw, pw.flush(appendHeader(nil, link))
}

// WritePacket adds a packet; p's memory is not kept. An error of the writer below
// is final: it comes again with every later call.
func (w *Writer) WritePacket(p *Packet) error {
	if err := p.check(); err != nil {
		return err
	}
	if w.err != nil {
		return w.err
	}
	return w.flush(appendPacket(w.buf[:0], p))
}

// WriteStats adds how many packets there were at the interface in all, and how
// many of them the capture lacks. It belongs at the end.
func (w *Writer) WriteStats(now time.Time, received, dropped uint64) error {
	if w.err != nil {
		return w.err
	}
	return w.flush(appendStats(w.buf[:0], now, received, dropped))
}

func (w *Writer) flush(b []byte) error {
	w.buf = b
	if _, err := w.w.Write(b); err != nil {
		w.err = fmt.Errorf("capture: writing pcapng: %w", err)
	}
	return w.err
}

// maxPacket keeps the sums of lengths within the 32 bits of a block's length.
const maxPacket = 1 << 30

func (p *Packet) check() error {
	if len(p.Data) > maxPacket {
		return fmt.Errorf("capture: Packet.Data has %d octets: at most %d", len(p.Data), maxPacket)
	}
	if p.Length != 0 && (p.Length < len(p.Data) || int64(p.Length) > math.MaxUint32) {
		return fmt.Errorf("capture: Packet.Length is %d: at least the %d octets of Data, and 32 bits", p.Length,
			len(p.Data))
	}
	if len(p.Comment) > math.MaxUint16 {
		return fmt.Errorf("capture: Packet.Comment has %d octets: at most %d", len(p.Comment), math.MaxUint16)
	}
	return nil
}

// appendHeader appends the section header and the interface.
func appendHeader(b []byte, link LinkType) []byte {
	b, at := startBlock(b, blockSection)
	b = binary.LittleEndian.AppendUint32(b, byteOrderMagic)
	b = binary.LittleEndian.AppendUint16(b, 1) // version 1.0
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint64(b, math.MaxUint64) // the section's length is not known
	b = appendOption(b, optSectionApp, application)
	b = endBlock(appendOption(b, optEnd, ""), at)

	b, at = startBlock(b, blockInterface)
	b = binary.LittleEndian.AppendUint16(b, uint16(link))
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, 0) // no snap length
	b = appendOption(b, optIfName, "iwarp")
	b = appendOption(b, optIfTSResol, "\x09") // nanoseconds
	return endBlock(appendOption(b, optEnd, ""), at)
}

// appendPacket appends an Enhanced Packet Block.
func appendPacket(b []byte, p *Packet) []byte {
	b, at := startPacket(b, p.Time)
	b = append(b, p.Data...)
	return endPacket(b, at, max(p.Length, len(p.Data)), p.Direction, p.Comment)
}

// packetHead is the length of an Enhanced Packet Block before the packet.
const packetHead = 28

// startPacket begins an Enhanced Packet Block: the packet's octets come next, and
// then endPacket, which fills in the lengths.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                    Block Type = 0x00000006                    |
//	|                      Block Total Length                       |
//	|                         Interface ID                          |
//	|               Timestamp (upper 32 bits first)                 |
//	|                                                               |
//	|                    Captured Packet Length                     |
//	|                    Original Packet Length                     |
//	|            Packet Data, padded to 32 bits; options            |
//	|                      Block Total Length                       |
//	+---------------------------------------------------------------+
func startPacket(b []byte, t time.Time) (out []byte, at int) {
	b, at = startBlock(b, blockPacket)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = appendTime(b, t)
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0), at
}

func endPacket(b []byte, at, length int, d Direction, comment string) []byte {
	binary.LittleEndian.PutUint32(b[at+20:], uint32(len(b)-at-packetHead))
	binary.LittleEndian.PutUint32(b[at+24:], uint32(length))
	b = pad(b, at)
	if comment != "" {
		b = appendOption(b, optComment, comment)
	}
	if d != DirectionUnknown {
		b = appendOption(b, optPacketFlags, string([]byte{byte(d), 0, 0, 0}))
	}
	if comment != "" || d != DirectionUnknown {
		b = appendOption(b, optEnd, "")
	}
	return endBlock(b, at)
}

// appendStats appends an Interface Statistics Block.
func appendStats(b []byte, t time.Time, received, dropped uint64) []byte {
	b, at := startBlock(b, blockStats)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = appendTime(b, t)
	b = appendOption(b, optStatsRecv, string(binary.LittleEndian.AppendUint64(nil, received)))
	b = appendOption(b, optStatsDrop, string(binary.LittleEndian.AppendUint64(nil, dropped)))
	return endBlock(appendOption(b, optEnd, ""), at)
}

func startBlock(b []byte, kind uint32) (out []byte, at int) {
	at = len(b)
	b = binary.LittleEndian.AppendUint32(b, kind)
	return append(b, 0, 0, 0, 0), at
}

func endBlock(b []byte, at int) []byte {
	n := uint32(len(b) - at + 4)
	binary.LittleEndian.PutUint32(b[at+4:], n)
	return binary.LittleEndian.AppendUint32(b, n)
}

func appendOption(b []byte, code uint16, value string) []byte {
	b = binary.LittleEndian.AppendUint16(b, code)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	at := len(b)
	return pad(append(b, value...), at)
}

// pad fills up to a multiple of four octets from at.
func pad(b []byte, at int) []byte {
	for (len(b)-at)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func appendTime(b []byte, t time.Time) []byte {
	n := uint64(max(t.UnixNano(), 0))
	b = binary.LittleEndian.AppendUint32(b, uint32(n>>32))
	return binary.LittleEndian.AppendUint32(b, uint32(n))
}
