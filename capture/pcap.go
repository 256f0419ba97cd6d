package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// pcapMagic tells octet order and resolution by a file's first four octets, taken
// as a big-endian number.
func pcapMagic(v uint32) (big, nano, ok bool) {
	switch v {
	case 0xa1b2c3d4:
		return true, false, true
	case 0xa1b23c4d:
		return true, true, true
	case 0xd4c3b2a1:
		return false, false, true
	case 0x4d3cb2a1:
		return false, true, true
	}
	return false, false, false
}

const (
	pcapHeaderLen = 24
	pcapRecordLen = 16
)

// pcapFile reads the classic format
// (https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-03.html).
type pcapFile struct {
	src   *source
	order binary.ByteOrder
	nano  bool
	link  uint32
	snap  uint32
	frame uint64
}

func newPcap(s *source) (*pcapFile, error) {
	b, err := s.next(pcapHeaderLen)
	if err != nil {
		return nil, s.fail(fmt.Errorf("file header: %w", noEOF(err)))
	}
	big, nano, _ := pcapMagic(binary.BigEndian.Uint32(b))
	f := &pcapFile{src: s, order: binary.LittleEndian, nano: nano}
	if big {
		f.order = binary.BigEndian
	}
	if v := f.order.Uint16(b[4:]); v != 2 {
		return nil, s.fail(fmt.Errorf("version %d of pcap is not known, want 2", v))
	}
	f.snap = f.order.Uint32(b[16:])
	f.link = f.order.Uint32(b[20:]) & 0xffff // the upper half tells of an FCS
	return f, nil
}

func (f *pcapFile) next(p *Packet) error {
	b, err := f.src.next(pcapRecordLen)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return io.EOF
		}
		return f.src.fail(fmt.Errorf("header of frame %d: %w", f.frame+1, err))
	}
	sec, frac := f.order.Uint32(b), f.order.Uint32(b[4:])
	n, orig := f.order.Uint32(b[8:]), f.order.Uint32(b[12:])
	if n > maxBlock {
		return f.src.fail(fmt.Errorf("frame %d: captured length is %d, at most %d is believed", f.frame+1, n, maxBlock))
	}
	ns := int64(frac)
	if !f.nano {
		ns *= 1000
	}
	start := f.src.off
	data, err := f.src.next(int(n))
	if err != nil {
		e := f.src.fail(fmt.Errorf("frame %d of %d octets: %w", f.frame+1, n, noEOF(err)))
		e.Offset = start
		return e
	}
	f.frame++
	*p = Packet{
		Time: time.Unix(int64(sec), ns).UTC(),
		Link: LinkType(f.link), Data: data, Length: max(int(min(orig, maxBlock)), int(n)),
	}
	return nil
}

func (f *pcapFile) info(i *FileInfo) {
	i.Format = FormatPcap
	i.BigEndian = f.order == binary.BigEndian
	r := time.Microsecond
	if f.nano {
		r = time.Nanosecond
	}
	i.Interfaces = []Interface{{Link: LinkType(f.link), SnapLen: f.snap, Resolution: r}}
}
