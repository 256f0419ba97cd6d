package sctp

import (
	"encoding/binary"
	"fmt"

	"github.com/go-iwarp/iwarp/protocol"
)

// The Payload Protocol Identifiers of the two kinds of chunks, and the Adaptation Layer
// Indication (https://www.rfc-editor.org/rfc/rfc5043#section-12).
const (
	// Rule: SCTP-5.2-01
	PPIDSegment = 16 // a DDP segment
	PPIDControl = 17 // DDP Stream Session Control
	// Rule: SCTP-5.1-01
	IndicationDDP = 1
)

// Function is what a session control message says
// (https://www.rfc-editor.org/rfc/rfc5043#section-5.2.3,
// https://www.rfc-editor.org/rfc/rfc6581#section-7). 0xFFFF is reserved for experiments
// (https://www.rfc-editor.org/rfc/rfc6580#section-3.5).
type Function uint16

// The functions. The enhanced ones carry the block of RFC 6581 before the Private Data.
const (
	// Rule: SCTP-5.2.3-01
	Initiate         Function = 1
	Accept           Function = 2
	Reject           Function = 3
	Terminate        Function = 4
	EnhancedInitiate Function = 5
	EnhancedAccept   Function = 6
	EnhancedReject   Function = 7
	// Rule: IANA-3.5-01
	Experimental Function = 0xffff
)

// String names the function.
func (f Function) String() string {
	switch f {
	case Initiate:
		return "Initiate"
	case Accept:
		return "Accept"
	case Reject:
		return "Reject"
	case Terminate:
		return "Terminate"
	case EnhancedInitiate:
		return "Enhanced Initiate"
	case EnhancedAccept:
		return "Enhanced Accept"
	case EnhancedReject:
		return "Enhanced Reject"
	}
	return fmt.Sprintf("function 0x%04x", uint16(f))
}

// Sizes in octets.
const (
	SegmentHeaderLen = 2   // of a segment chunk
	ControlHeaderLen = 4   // of a control chunk
	MaxPrivateData   = 512 // of one control chunk, the block of RFC 6581 included
	MinSegment       = 516 // the least that DDP may be told to be the size of a segment
)

// Control is a DDP Stream Session Control message, the user data of a chunk with
// PPIDControl:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|            DDP-SSN            |         Function Code         |
//	+-------------------------------+-------------------------------+
//	~                Private Data, 0 to 512 octets                  ~
//	+---------------------------------------------------------------+
type Control struct {
	SSN         uint16
	Function    Function
	PrivateData []byte // the block of RFC 6581 included
}

// AppendTo appends the message to b. The error names the field that cannot be sent; b is
// then returned as it was.
func (c *Control) AppendTo(b []byte) ([]byte, error) {
	if err := c.check(); err != nil {
		return b, err
	}
	b = binary.BigEndian.AppendUint16(b, c.SSN)
	b = binary.BigEndian.AppendUint16(b, uint16(c.Function))
	return append(b, c.PrivateData...), nil
}

func (c *Control) check() error {
	switch {
	// Rule: SCTP-5.2.3-03, MPA2-7-03
	case len(c.PrivateData) > MaxPrivateData:
		return illegal("RFC 5043 section 5.2.3", "%v with %d octets of Private Data: at most %d",
			c.Function, len(c.PrivateData), MaxPrivateData)
	// Rule: SCTP-5.2.3-04, MPA2-7-04
	case c.Function == Terminate && len(c.PrivateData) > 0:
		return illegal("RFC 5043 section 5.2.3", "Terminate with %d octets of Private Data: it has none",
			len(c.PrivateData))
	case c.Function == 0 || c.Function > EnhancedReject:
		return illegal("RFC 5043 section 5.2.3", "%v is not known", c.Function)
	case (c.Function == EnhancedInitiate || c.Function == EnhancedAccept) && len(c.PrivateData) < protocol.EnhancedLen:
		return illegal("RFC 6581 section 7", "%v with %d octets of Private Data: the block has %d",
			c.Function, len(c.PrivateData), protocol.EnhancedLen)
	}
	return nil
}

// ParseControl parses the user data of a chunk with PPIDControl. PrivateData refers to b.
func ParseControl(b []byte) (Control, error) {
	if len(b) < ControlHeaderLen {
		return Control{}, illegal("RFC 5043 section 5.2.3", "control chunk of %d octets: its header has %d",
			len(b), ControlHeaderLen)
	}
	c := Control{
		SSN: binary.BigEndian.Uint16(b), Function: Function(binary.BigEndian.Uint16(b[2:])),
		PrivateData: b[ControlHeaderLen:],
	}
	return c, c.check()
}

// AppendSegment appends what goes before a DDP segment in a chunk with PPIDSegment:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|            DDP-SSN            |                               |
//	+-------------------------------+          DDP Segment          +
//	~                              ...                              ~
//	+---------------------------------------------------------------+
//
// Rule: SCTP-5.2.2-01
func AppendSegment(b []byte, ssn uint16) []byte { return binary.BigEndian.AppendUint16(b, ssn) }

// ParseSegment parses the user data of a chunk with PPIDSegment. The segment refers to b.
func ParseSegment(b []byte) (ssn uint16, segment []byte, err error) {
	if len(b) < SegmentHeaderLen {
		return 0, nil, illegal("RFC 5043 section 5.2.2", "segment chunk of %d octets: its header has %d",
			len(b), SegmentHeaderLen)
	}
	return binary.BigEndian.Uint16(b), b[SegmentHeaderLen:], nil
}

// illegal is the error for a chunk that ends its session.
func illegal(section, format string, args ...any) *protocol.Error {
	return &protocol.Error{
		Code: protocol.MPAConnectionLost, Section: section, Detail: "SCTP: " + fmt.Sprintf(format, args...),
	}
}
