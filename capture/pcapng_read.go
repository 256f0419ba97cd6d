package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
	"time"
)

// More blocks and options of pcapng
// (https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html).
const (
	blockOldPacket    = 2
	blockSimplePacket = 3

	optIfTSOffset = 14

	maxInterfaces    = 1 << 16
	maxInterfaceName = 256 // octets of it that are kept
)

// pcapngFile reads the blocks that hold packets, and what is needed to understand
// them; it skips the others.
type pcapngFile struct {
	src    *source
	order  binary.ByteOrder
	ifaces []ngInterface // of this section
	before int           // interfaces of earlier sections
	all    []Interface
}

type ngInterface struct {
	link   uint32
	snap   uint32
	resol  uint8 // if_tsresol
	offset int64 // seconds
}

func newPcapng(s *source) *pcapngFile { return &pcapngFile{src: s} }

func (f *pcapngFile) info(i *FileInfo) {
	i.Format = FormatPcapng
	i.BigEndian = f.order == binary.BigEndian
	i.Interfaces = append([]Interface(nil), f.all...)
}

// next reads blocks up to the next packet.
func (f *pcapngFile) next(p *Packet) error {
	for {
		start := f.src.off + int64(f.src.take)
		kind, body, err := f.block()
		if err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return io.EOF
			}
			return f.at(start, err)
		}
		ok, err := f.handle(kind, body, p)
		if err != nil {
			return f.at(start, err)
		}
		if ok {
			return nil
		}
	}
}

func (f *pcapngFile) at(off int64, err error) *FileError {
	return &FileError{Offset: off, Compressed: f.src.compressed, Err: err}
}

// block reads one block and gives what is between its two lengths.
func (f *pcapngFile) block() (kind uint32, body []byte, err error) {
	b, err := f.src.next(8)
	if err != nil {
		return 0, nil, err
	}
	section := binary.BigEndian.Uint32(b) == blockSection
	head := [8]byte(b)
	if section {
		if b, err = f.src.next(4); err != nil {
			return 0, nil, noEOF(err)
		}
		switch {
		case binary.LittleEndian.Uint32(b) == byteOrderMagic:
			f.order = binary.LittleEndian
		case binary.BigEndian.Uint32(b) == byteOrderMagic:
			f.order = binary.BigEndian
		default:
			return 0, nil, fmt.Errorf("section header with octet order % x", b)
		}
		f.before += len(f.ifaces)
		f.ifaces = nil
	}
	if f.order == nil {
		return 0, nil, ErrFormat
	}
	kind = f.order.Uint32(head[:])
	n := f.order.Uint32(head[4:])
	done := uint32(8)
	if section {
		done = 12
	}
	if n%4 != 0 || n < done+4 || n > maxBlock {
		return 0, nil, fmt.Errorf("block of type %#x with length %d", kind, n)
	}
	body, err = f.src.next(int(n - done))
	if err != nil {
		return 0, nil, fmt.Errorf("block of type %#x with length %d: %w", kind, n, noEOF(err))
	}
	if m := f.order.Uint32(body[len(body)-4:]); m != n {
		return 0, nil, fmt.Errorf("block of type %#x has length %d before and %d behind", kind, n, m)
	}
	return kind, body[:len(body)-4], nil
}

var errShortBlock = errors.New("block is too short for its fields")

// handle reports whether the block was a packet.
func (f *pcapngFile) handle(kind uint32, b []byte, p *Packet) (bool, error) {
	switch kind {
	case blockInterface:
		return false, f.newInterface(b)
	case blockPacket, blockOldPacket:
		if len(b) < 20 {
			return false, errShortBlock
		}
		id := f.order.Uint32(b)
		if kind == blockOldPacket {
			id = uint32(f.order.Uint16(b))
		}
		ticks := uint64(f.order.Uint32(b[4:]))<<32 | uint64(f.order.Uint32(b[8:]))
		return true, f.packet(p, id, ticks, f.order.Uint32(b[12:]), f.order.Uint32(b[16:]), b[20:])
	case blockSimplePacket:
		if len(b) < 4 {
			return false, errShortBlock
		}
		if len(f.ifaces) == 0 {
			return false, errors.New("packet of interface 0 before its description")
		}
		orig := f.order.Uint32(b)
		n := min(orig, uint32(len(b)-4))
		if s := f.ifaces[0].snap; s > 0 {
			n = min(n, s)
		}
		return true, f.packet(p, 0, 0, n, orig, b[4:])
	}
	return false, nil
}

func (f *pcapngFile) packet(p *Packet, id uint32, ticks uint64, n, orig uint32, data []byte) error {
	if int64(id) >= int64(len(f.ifaces)) {
		return fmt.Errorf("packet of interface %d, and there are %d", id, len(f.ifaces))
	}
	if int64(n) > int64(len(data)) {
		return fmt.Errorf("captured length is %d in a block with room for %d", n, len(data))
	}
	i := &f.ifaces[id]
	*p = Packet{
		Time: time.Unix(0, i.time(ticks)).UTC(), Link: LinkType(i.link), Interface: f.before + int(id),
		Data: data[:n], Length: max(int(min(orig, maxBlock)), int(n)),
	}
	if at := (int64(n) + 3) &^ 3; at < int64(len(data)) {
		f.options(data[at:], func(code int, v []byte) {
			switch {
			case code == optComment:
				p.Comment = string(v)
			case code == optPacketFlags && len(v) == 4:
				if d := Direction(f.order.Uint32(v) & 3); d <= Outbound {
					p.Direction = d
				}
			}
		})
	}
	return nil
}

func (f *pcapngFile) newInterface(b []byte) error {
	if len(b) < 8 {
		return errShortBlock
	}
	if f.before+len(f.ifaces) >= maxInterfaces {
		return fmt.Errorf("more than %d interfaces", maxInterfaces)
	}
	i := ngInterface{link: uint32(f.order.Uint16(b)), snap: f.order.Uint32(b[4:]), resol: 6}
	pub := Interface{Link: LinkType(i.link), SnapLen: i.snap}
	f.options(b[8:], func(code int, v []byte) {
		switch {
		case code == optIfName:
			pub.Name = strings.ToValidUTF8(string(v[:min(len(v), maxInterfaceName)]), "\ufffd")
		case code == optIfTSResol && len(v) >= 1:
			i.resol = v[0]
		case code == optIfTSOffset && len(v) >= 8:
			i.offset = int64(f.order.Uint64(v))
		}
	})
	pub.Resolution = time.Duration(i.time(1) - i.time(0))
	f.ifaces = append(f.ifaces, i)
	f.all = append(f.all, pub)
	return nil
}

// options calls fn for each option at the end of a block, up to the first that
// the block has no room for.
func (f *pcapngFile) options(b []byte, fn func(code int, value []byte)) {
	for len(b) >= 4 {
		code, n := int(f.order.Uint16(b)), int(f.order.Uint16(b[2:]))
		b = b[4:]
		if code == optEnd || n > len(b) {
			return
		}
		fn(code, b[:n])
		b = b[min((n+3)&^3, len(b)):]
	}
}

// time turns a timestamp into nanoseconds since 1970.
func (i *ngInterface) time(ticks uint64) int64 {
	var per uint64 // ticks in a second
	if n := i.resol & 0x7f; i.resol&0x80 != 0 {
		if n > 63 {
			return i.offset * int64(time.Second)
		}
		per = 1 << n
	} else {
		if n > 19 {
			return i.offset * int64(time.Second)
		}
		per = 1
		for range n {
			per *= 10
		}
	}
	hi, lo := bits.Mul64(ticks%per, uint64(time.Second))
	ns, _ := bits.Div64(hi, lo, per) // hi < per since ticks%per < per
	return (int64(ticks/per)+i.offset)*int64(time.Second) + int64(ns)
}
