package iwarp

import (
	"fmt"
	"time"

	"github.com/go-iwarp/iwarp/mpa"
	"github.com/go-iwarp/iwarp/protocol"
)

// MPAConfig configures what MPA does below a connection: its startup frames, what both
// ends may put on the wire, and how FPDUs meet TCP segments
// (https://www.rfc-editor.org/rfc/rfc5044, https://www.rfc-editor.org/rfc/rfc6581).
// Zero in a field means the documented default.
type MPAConfig struct {
	// Revision of MPA: 2 (RFC 6581), the default, or 1 (RFC 5044). A responder with
	// 2 answers either with its like; with 1 it closes a connection that asks for 2
	// (RFC 6581 section 10). A dialing end that offers 2 falls back to 1 as Dial says.
	Revision int
	// RDMAC is what to do with a peer that speaks the RDMA Consortium's protocols
	// (MPA revision 0, RFC 5044 Appendix C). Default: close the connection.
	RDMAC mpa.RDMAC
	// Markers asks the peer to insert Markers into what it sends. Whether this end
	// inserts them is the peer's choice. Linux siw refuses a connection that asks.
	Markers bool
	// RTR is the set of RTR kinds that this end supports on a peer-to-peer
	// connection. Default: write and read. RTRNone asks for a client-server
	// connection, on which the responder must not send first.
	RTR RTR
	// RequirePeerToPeer makes startup fail if the peer cannot do peer-to-peer.
	RequirePeerToPeer bool
	// RequireCRC makes startup fail rather than go without CRC, whatever the
	// device's policy says. (Without a policy the CRC is always on.)
	RequireCRC bool
	// FPDUMax bounds the FPDUs that this end makes, in octets. Default 0: what fits
	// a TCP segment, and at most 32 KiB where segments are larger, as on loopback:
	// such an FPDU stays in the processor's first cache from its CRC to its place.
	// (RFC 5044 section 4.5 asks for FPDUs that fill a segment. With
	// [mpa.AlignSegments] or [mpa.AlignStrict] they do, however large it is.) A
	// number above the segment size makes FPDUs larger than segments, which the
	// peer may refuse, and which cannot be aligned.
	FPDUMax int
	// Align says how hard to work for FPDUs that start where TCP segments do, which
	// spares a hardware peer work. Default: [mpa.AlignAuto], where it is free.
	Align mpa.Align
	// NudgeAfter is for Linux siw as the responder, which may overlook the first octets
	// after its Reply until more come. If this end dialed, has sent something, has had
	// no answer at all for so long, and waits for one (a Read or an atomic is
	// outstanding, a call of Recv waits, or the program's QP has receives posted), it
	// sends an RDMA Write of no octets, once. That changes nothing at any peer
	// (https://www.rfc-editor.org/rfc/rfc5041#section-5.2). Default 250 ms; negative:
	// never.
	NudgeAfter time.Duration
}

// RTR is a set of Ready To Receive indications (RFC 6581 section 9.2).
type RTR = protocol.RTR

// The kinds of RTR. RTRNone in [MPAConfig.RTR] stands for the empty set, since zero
// there is the default.
const (
	RTRSend         = protocol.RTRSend
	RTRWrite        = protocol.RTRWrite
	RTRRead         = protocol.RTRRead
	RTRNone     RTR = 0x80
	defaultRTR      = RTRWrite | RTRRead
	allRTRKinds     = RTRSend | RTRWrite | RTRRead
)

// setDefaults fills in the defaults.
func (m *MPAConfig) setDefaults() {
	setDefault(&m.Revision, 2)
	setDefault(&m.RTR, defaultRTR)
	setDefault(&m.NudgeAfter, 250*time.Millisecond)
	m.RTR &= allRTRKinds
}

func (m *MPAConfig) check() error {
	if m.Revision != 1 && m.Revision != 2 {
		return fmt.Errorf("iwarp: Config.MPA.Revision is %d: 1 (RFC 5044) or 2 (RFC 6581)", m.Revision)
	}
	if m.RequirePeerToPeer && (m.Revision != 2 || m.RTR == 0) {
		return fmt.Errorf("iwarp: Config.MPA.RequirePeerToPeer needs revision 2 and a kind of RTR")
	}
	return settle(limit{"Config.MPA.FPDUMax", &m.FPDUMax, 0, 0, maxFPDU})
}

// maxFPDU is the largest FPDU without Markers: 64768 octets of ULPDU, its length
// field and CRC, padded.
const maxFPDU = mpa.MaxULPDU + 8

// maxSegment is the largest DDP segment to make over MPA, header included; 0 if any
// that fits will do. See FPDUMax.
func (m *MPAConfig) maxSegment() int {
	if m.FPDUMax != 0 || m.Align == mpa.AlignSegments || m.Align == mpa.AlignStrict {
		return 0
	}
	return mpa.MULPDU(defaultFPDUMax, false)
}

// defaultFPDUMax divides the receive buffer of package mpa.
const defaultFPDUMax = 32 << 10
