package stream

import (
	"encoding/binary"
	"fmt"
	"math"
)

// privateDataLen is the length of the Private Data that both ends exchange at startup.
const privateDataLen = 40

// sgeLen is the length of an address of memory, in the Private Data and in the list of grants.
const sgeLen = 16

// protocolVersion is the only one that there is.
const protocolVersion = 1

// The flags of the Private Data.
const (
	flagBigEndian = 1 << 0 // messages and grants have the most significant octet first
	flagIOMap     = 1 << 1 // a table of memory follows the list of grants, for direct access
)

// sge is an address of memory: so many octets from a Tagged Offset on.
type sge struct {
	addr   uint64
	stag   uint32
	length uint32
}

// privateData is what an end tells the other at startup, 40 octets, the most significant octet of a number first:
//
//	 0       1       2               4                       7
//	+-------+-------+---------------+-----------------------+-------+
//	|version| flags |    credits    |       reserved        | iomap |
//	+-------+-------+---------------+-----------------------+-------+
//	|                Tagged Offset of the list of grants            |
//	+-------------------------------+-------------------------------+
//	|             its STag          |  the number of its entries    |
//	+-------------------------------+-------------------------------+
//	|              Tagged Offset of the first grant                 |
//	+-------------------------------+-------------------------------+
//	|             its STag          |  its length in octets         |
//	+-------------------------------+-------------------------------+
type privateData struct {
	flags   uint8
	credits uint16 // data messages that may be under way to this end
	grants  sge    // where the peer writes grants of its memory; length counts entries
	first   sge    // the memory that is granted from the start
}

// AppendTo appends the 40 octets.
func (d *privateData) AppendTo(b []byte) []byte {
	b = append(b, protocolVersion, d.flags)
	b = binary.BigEndian.AppendUint16(b, d.credits)
	b = append(b, 0, 0, 0, 0)
	for _, s := range [...]*sge{&d.grants, &d.first} {
		b = binary.BigEndian.AppendUint64(b, s.addr)
		b = binary.BigEndian.AppendUint32(b, s.stag)
		b = binary.BigEndian.AppendUint32(b, s.length)
	}
	return b
}

// parsePrivateData checks what the peer sent. What follows the 40 octets is passed over, for versions to come.
func parsePrivateData(b []byte) (d privateData, err error) {
	if len(b) < privateDataLen {
		return d, fmt.Errorf("stream: the peer's Private Data has %d octets: at least %d", len(b), privateDataLen)
	}
	if b[0] != protocolVersion {
		return d, fmt.Errorf("stream: the peer's Private Data: version is %d: only %d is known", b[0], protocolVersion)
	}
	d.flags = b[1]
	d.credits = binary.BigEndian.Uint16(b[2:])
	d.grants, d.first = parseSGE(b[8:]), parseSGE(b[24:])
	switch {
	case d.flags&flagBigEndian != 0:
		return d, fmt.Errorf("stream: the peer's Private Data: flags are 0x%02x: big-endian messages are not supported",
			d.flags)
	case d.credits < 2:
		return d, fmt.Errorf("stream: the peer's Private Data: credits are %d: at least 2", d.credits)
	case d.grants.length < 2 || d.grants.length > maxGrantEntries:
		return d, fmt.Errorf("stream: the peer's Private Data: the list of grants has %d entries: from 2 to %d",
			d.grants.length, maxGrantEntries)
	case wraps(d.grants.addr, uint64(d.grants.length)*sgeLen):
		return d, fmt.Errorf("stream: the peer's Private Data: the list of grants at TO 0x%x wraps 2^64", d.grants.addr)
	case d.first.length == 0:
		return d, fmt.Errorf("stream: the peer's Private Data: the first grant has no octets")
	}
	return d, d.first.check()
}

// maxGrantEntries is more than any peer has use for: rsockets have 2.
const maxGrantEntries = 1 << 10

func parseSGE(b []byte) sge {
	return sge{
		addr: binary.BigEndian.Uint64(b), stag: binary.BigEndian.Uint32(b[8:]), length: binary.BigEndian.Uint32(b[12:]),
	}
}

// check refuses a grant that no memory can have.
func (s *sge) check() error {
	if wraps(s.addr, uint64(s.length)) {
		return fmt.Errorf("stream: a grant of the peer: TO 0x%x plus %d octets wraps 2^64", s.addr, s.length)
	}
	return nil
}

func wraps(addr, n uint64) bool { return addr > math.MaxUint64-n }

// appendGrant appends an entry of the list of grants, the least significant octet of a number first.
func (s *sge) appendGrant(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, s.addr)
	b = binary.LittleEndian.AppendUint32(b, s.stag)
	return binary.LittleEndian.AppendUint32(b, s.length)
}

// A message is four octets, the least significant first: the kind in its three most significant bits, the value in
// the others.
const (
	msgLen     = 4
	kindShift  = 29
	maxValue   = 1<<kindShift - 1
	kindData   = 0 // value octets have been written
	kindGrant  = 4 // value, modulo 2^16, is the sequence number of data that the peer may not reach
	kindMemory = 6 // an entry of the table of memory has been written
	kindState  = 7 // value is one of the states

	// The value of a grant that this package sends: rsockets look at the 16 least significant bits only.
	grantMarked = 1 << 27 // the next bit says something
	grantMemory = 1 << 28 // an entry of the list has been written

	stateDisconnect = 0 // the sender neither sends nor reads any more
	stateKeepalive  = 1
	stateShutdown   = 2 // the sender sends no more data
)

func message(kind, value uint32) uint32 { return kind<<kindShift | value }

func parseMessage(b []byte) (kind, value uint32) {
	m := binary.LittleEndian.Uint32(b)
	return m >> kindShift, m & maxValue
}
