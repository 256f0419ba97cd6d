package sctp

import (
	"encoding/binary"
	"hash/crc32"
	"net"
	"sync/atomic"
)

// What the SCTP below lacks is added to its packets on their way: the Adaptation Layer
// Indication in INIT and INIT ACK, and the number of streams that this end wants. All other
// packets pass as they are.

// Layout of a packet (https://www.rfc-editor.org/rfc/rfc9260#section-3).
const (
	commonHeaderLen = 12 // ports, verification tag, CRC32c
	chunkHeaderLen  = 4
	initLen         = chunkHeaderLen + 16 // up to the parameters
	dataHeaderLen   = 16                  // of a DATA chunk
	chunkINIT       = 1
	chunkINITACK    = 2
	chunkABORT      = 6
	paramAdaptation = 0xc006
	paramLen        = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the CRC32c of a packet, with zero in its place.
func checksum(p []byte) uint32 {
	var zero [4]byte
	c := crc32.Update(0, castagnoli, p[:8])
	c = crc32.Update(c, castagnoli, zero[:])
	return crc32.Update(c, castagnoli, p[commonHeaderLen:])
}

// whole reports whether a packet has the CRC32c that it should.
func whole(p []byte) bool {
	return len(p) >= commonHeaderLen+chunkHeaderLen && binary.LittleEndian.Uint32(p[8:]) == checksum(p)
}

func setChecksum(p []byte) { binary.LittleEndian.PutUint32(p[8:], checksum(p)) }

// startup returns the INIT or INIT ACK chunk of a packet, nil if it has none. Both stand
// alone in their packets.
func startup(p []byte) (chunk []byte) {
	if len(p) < commonHeaderLen+initLen {
		return nil
	}
	c := p[commonHeaderLen:]
	n := int(binary.BigEndian.Uint16(c[2:]))
	if c[0] != chunkINIT && c[0] != chunkINITACK || n < initLen || n > len(c) {
		return nil
	}
	return c[:n]
}

// indication returns the Adaptation Layer Indication of an INIT or INIT ACK chunk; false
// if it has none.
func indication(chunk []byte) (code uint32, ok bool) {
	for p := chunk[initLen:]; len(p) >= 4; {
		n := int(binary.BigEndian.Uint16(p[2:]))
		if n < 4 || n > len(p) {
			return 0, false
		}
		if binary.BigEndian.Uint16(p) == paramAdaptation && n >= paramLen {
			return binary.BigEndian.Uint32(p[4:]), true
		}
		p = p[min((n+3)&^3, len(p)):]
	}
	return 0, false
}

// adapt returns the packet with the indication in its INIT or INIT ACK, and at most so
// many streams in each direction.
//
// Rule: SCTP-5.1-01, SCTP-8-01
func adapt(packet []byte, code uint32, streams uint16) []byte {
	chunk := startup(packet)
	if chunk == nil {
		return packet
	}
	out := make([]byte, 0, len(packet)+paramLen+3)
	out = append(out, packet[:commonHeaderLen]...)
	out = append(out, chunk...)
	for len(out)%4 != 0 {
		out = append(out, 0)
	}
	out = binary.BigEndian.AppendUint16(out, paramAdaptation)
	out = binary.BigEndian.AppendUint16(out, paramLen)
	out = binary.BigEndian.AppendUint32(out, code)
	c := out[commonHeaderLen:]
	binary.BigEndian.PutUint16(c[2:], uint16(len(c)))
	for _, at := range []int{12, 14} { // outbound and inbound streams
		binary.BigEndian.PutUint16(c[at:], min(binary.BigEndian.Uint16(c[at:]), streams))
	}
	setChecksum(out)
	return out
}

// abort makes the packet that refuses the association that an INIT asks for.
func abort(init []byte) []byte {
	out := make([]byte, commonHeaderLen, commonHeaderLen+chunkHeaderLen)
	copy(out, init[2:4])
	copy(out[2:], init[:2])
	copy(out[4:], init[commonHeaderLen+chunkHeaderLen:][:4]) // the initiate tag
	out = append(out, chunkABORT, 0, 0, chunkHeaderLen)
	setChecksum(out)
	return out
}

// adapted is what the SCTP below sends its packets over.
type adapted struct {
	net.Conn
	code    uint32
	streams uint16
	up      atomic.Bool  // the association stands: no INIT begins it anew
	peer    atomic.Int64 // the peer's indication; noIndication
	refuse  func()       // the peer is of another kind; called once at most, from Read
}

const (
	unasked      = -2 // neither INIT nor INIT ACK has come
	noIndication = -1
)

func newAdapted(nc net.Conn, code uint32, streams uint16, refuse func()) *adapted {
	a := &adapted{Conn: nc, code: code, streams: streams, refuse: refuse}
	a.peer.Store(unasked)
	return a
}

// Write implements net.Conn.
func (a *adapted) Write(p []byte) (int, error) {
	if _, err := a.Conn.Write(adapt(p, a.code, a.streams)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Read implements net.Conn. What an association that is not DDP's begins with does not get
// through.
func (a *adapted) Read(p []byte) (int, error) {
	for {
		n, err := a.Conn.Read(p)
		if err != nil {
			return n, err
		}
		chunk := startup(p[:n])
		switch {
		case chunk == nil:
			return n, nil
		case a.up.Load() || !whole(p[:n]):
			continue
		}
		code, ok := indication(chunk)
		peer := int64(code)
		if !ok {
			peer = noIndication
		}
		a.peer.Store(peer)
		// Rule: SCTP-7.1-02, SCTP-11.1-01, SCTP-11.1-02
		if peer == int64(a.code) {
			return n, nil
		}
		if a.refuse != nil {
			a.refuse()
			a.refuse = nil
		}
	}
}
