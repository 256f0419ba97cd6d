package mpa

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/go-iwarp/iwarp/protocol"
)

// Sizes of a startup frame in octets
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.1).
const (
	StartupHeaderLen = 20  // key, flags, Rev, PD_Length
	MaxPrivateData   = 512 // of one frame, the block of RFC 6581 included
	MaxULPData       = MaxPrivateData - protocol.EnhancedLen
	keyLen           = 16
	maxStartupLen    = StartupHeaderLen + MaxPrivateData
)

const (
	// Rule: MPA-7.1.1-01
	requestKey = "MPA ID Req Frame"
	// Rule: MPA-7.1.1-03
	replyKey = "MPA ID Rep Frame"
)

// Flags of octet 16.
const (
	// Rule: MPA-7.1.1-05, MPA2-6-01
	flagMarkers = 0x80
	// Rule: MPA-7.1.1-05
	flagCRC    = 0x40
	flagReject = 0x20
	// Rule: MPA2-6-01
	flagEnhanced = 0x10 // from revision 2 on; a reserved bit before
)

// Kind says which of the two startup frames a frame is.
type Kind uint8

// The startup frames. The zero Kind is not valid.
const (
	Request Kind = iota + 1 // from the Initiator
	Reply                   // from the Responder
)

// String names the frame.
func (k Kind) String() string {
	switch k {
	case Request:
		return "Request"
	case Reply:
		return "Reply"
	}
	return fmt.Sprintf("startup frame kind %d", uint8(k))
}

func (k Kind) key() string {
	switch k {
	case Request:
		return requestKey
	case Reply:
		return replyKey
	}
	return ""
}

// Startup is an MPA Request or Reply frame
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.1, flag S from
// https://www.rfc-editor.org/rfc/rfc6581#section-6):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                                                               |
//	+    Key (16 octets): "MPA ID Req Frame", "MPA ID Rep Frame"    +
//	|                              ...                              |
//	+-+-+-+-+-------+---------------+-------------------------------+
//	|M|C|R|S|  Res  |      Rev      |           PD_Length           |
//	+-+-+-+-+-------+---------------+-------------------------------+
//	~                Private Data, 0 to 512 octets                  ~
//	+---------------------------------------------------------------+
//
// It goes over TCP as it stands: without a CRC and without Markers.
type Startup struct {
	Kind Kind
	// Markers (M): the sender of this frame wants Markers in what it receives.
	Markers bool
	// CRC (C): the sender of this frame wants CRCs in both directions.
	CRC bool
	// Reject (R): the Responder refuses. It has no meaning in a Request.
	Reject bool
	// Enhanced (S): Private Data starts with the block of RFC 6581. It exists
	// from revision 2 on only.
	Enhanced bool
	// Reserved holds the flag bits without a meaning, as received: the low four,
	// or the low five (0x1f) below revision 2. AppendTo writes them; a sender
	// leaves them zero.
	Reserved uint8
	// Revision is 1 for RFC 5044, 2 for RFC 6581, 0 for the drafts of the RDMA
	// Consortium.
	Revision uint8
	// PrivateData is all of it, the block of RFC 6581 included.
	PrivateData []byte
}

// Len is the length of the frame in octets.
func (s *Startup) Len() int { return StartupHeaderLen + len(s.PrivateData) }

// AppendTo appends the frame to b. The error says which field cannot be sent;
// b is then returned as it was.
func (s *Startup) AppendTo(b []byte) ([]byte, error) {
	reserved := uint8(0x0f)
	if s.Revision < 2 {
		reserved = 0x1f
	}
	switch {
	case s.Kind.key() == "":
		return b, fmt.Errorf("iwarp: %v: neither Request nor Reply (RFC 5044 section 7.1.1)", s.Kind)
	// Rule: MPA-7.1.1-20
	case len(s.PrivateData) > MaxPrivateData:
		return b,
			fmt.Errorf("iwarp: Private Data of %d octets, at most %d fit a startup frame (RFC 5044 section 7.1.1)",
				len(s.PrivateData), MaxPrivateData)
	// Rule: MPA2-6-03
	case s.Enhanced && s.Revision < 2:
		return b, fmt.Errorf("iwarp: flag S with revision %d, it exists from revision 2 on (RFC 6581 section 6)",
			s.Revision)
	// Rule: MPA2-6-06
	case s.Enhanced && len(s.PrivateData) < protocol.EnhancedLen:
		return b,
			fmt.Errorf("iwarp: flag S with %d octets of Private Data, which must start with a block of %d (RFC 6581 "+
				"section 6)",
				len(s.PrivateData), protocol.EnhancedLen)
	case s.Reserved&^reserved != 0:
		return b, fmt.Errorf("iwarp: reserved flags 0x%02x touch other flags (RFC 5044 section 7.1.1)", s.Reserved)
	}
	// Rule: MPA-7.1.1-05, MPA-7.1-05
	b = append(b, s.Kind.key()...)
	b = append(b, s.flags(), s.Revision)
	// Rule: MPA-7.1.1-17, MPA2-6-05
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.PrivateData)))
	return append(b, s.PrivateData...), nil
}

func (s *Startup) flags() uint8 {
	// Rule: MPA-7.1.1-13
	f := s.Reserved
	for _, x := range [...]struct {
		on  bool
		bit uint8
	}{{s.Markers, flagMarkers}, {s.CRC, flagCRC}, {s.Reject, flagReject}, {s.Enhanced, flagEnhanced}} {
		if x.on {
			f |= x.bit
		}
	}
	return f
}

// Block returns the block of RFC 6581 at the start of Private Data; false if flag S
// is off (https://www.rfc-editor.org/rfc/rfc6581#section-9).
func (s *Startup) Block() (protocol.Enhanced, bool) {
	if !s.Enhanced {
		return protocol.Enhanced{}, false
	}
	// Rule: MPA2-6-02
	e, _, err := protocol.ParseEnhanced(s.PrivateData)
	return e, err == nil
}

// ULPData is the part of PrivateData that belongs to the ULP: all of it, or what
// follows the block of RFC 6581. It aliases PrivateData.
func (s *Startup) ULPData() []byte {
	// Rule: MPA2-6-02, MPA2-6-07
	if s.Enhanced && len(s.PrivateData) >= protocol.EnhancedLen {
		return s.PrivateData[protocol.EnhancedLen:]
	}
	return s.PrivateData
}

// ParseStartup reads a startup frame of the wanted kind from the start of b and
// gives the octets used. PrivateData aliases b.
//
// [io.ErrUnexpectedEOF] asks for more octets. A frame that can never become
// valid returns a *[protocol.Error] with code [protocol.MPAStartup], and does so at
// the first octet that is wrong: a peer that does not speak MPA is found out
// without waiting for 20 octets from it. Reserved flags and R in a Request are
// kept, not checked. Any revision parses: whether it is acceptable is for
// [Answer] and [Conclude] to say.
func ParseStartup(b []byte, want Kind) (Startup, int, error) {
	if want.key() == "" {
		return Startup{}, 0, fmt.Errorf("iwarp: %v: neither Request nor Reply (RFC 5044 section 7.1.1)", want)
	}
	if err := checkKey(b, want); err != nil {
		return Startup{}, 0, err
	}
	if len(b) < StartupHeaderLen {
		return Startup{}, 0, io.ErrUnexpectedEOF
	}
	flags, rev := b[keyLen], b[keyLen+1]
	// Rule: MPA-7.1.1-11, MPA-7.1.1-13
	s := Startup{
		Kind: want, Revision: rev,
		Markers: flags&flagMarkers != 0, CRC: flags&flagCRC != 0, Reject: flags&flagReject != 0,
		Reserved: flags & 0x1f,
	}
	// Rule: MPA2-6-07
	if rev >= 2 {
		s.Enhanced, s.Reserved = flags&flagEnhanced != 0, flags&0x0f
	}
	n := int(binary.BigEndian.Uint16(b[keyLen+2:]))
	// Rule: MPA-7.1.1-18, MPA-7.1.2-21, MPA-7.1.2-24
	if n > MaxPrivateData {
		return Startup{}, 0, startupError("RFC 5044 section 7.1.1", "PD_Length is %d, at most %d is allowed", n,
			MaxPrivateData)
	}
	// Rule: MPA2-6-06, MPA2-12-01
	if s.Enhanced && n < protocol.EnhancedLen {
		return Startup{}, 0, startupError("RFC 6581 section 6",
			"PD_Length is %d with flag S set, which needs a block of %d octets", n, protocol.EnhancedLen)
	}
	if len(b) < StartupHeaderLen+n {
		return Startup{}, 0, io.ErrUnexpectedEOF
	}
	if n > 0 {
		s.PrivateData = b[StartupHeaderLen : StartupHeaderLen+n : StartupHeaderLen+n]
	}
	return s, StartupHeaderLen + n, nil
}

// checkKey compares as much of the key as has arrived. Request and Reply have
// different keys so that two Initiators find each other out (RFC 5044 section
// 7.1.2 rule 8).
func checkKey(b []byte, want Kind) error {
	key := want.key()
	// Rule: MPA-7.1.1-02, MPA-7.1.1-04, MPA-7.1.2-15
	for i := 0; i < len(b) && i < keyLen; i++ {
		if b[i] == key[i] {
			continue
		}
		switch {
		// Rule: MPA-7.1.2-19
		case want == Reply && b[i] == requestKey[i]:
			return startupError("RFC 5044 section 7.1.2",
				"a Request came where a Reply was due: both ends are Initiators")
		case want == Request && b[i] == replyKey[i]:
			return startupError("RFC 5044 section 7.1.2", "a Reply came where a Request was due")
		}
		return startupError("RFC 5044 section 7.1.1", "octet %d of the key is 0x%02x, want 0x%02x of %q", i, b[i],
			key[i], key)
	}
	return nil
}

func startupError(section, format string, args ...any) *protocol.Error {
	return &protocol.Error{Code: protocol.MPAStartup, Section: section, Detail: fmt.Sprintf(format, args...)}
}
