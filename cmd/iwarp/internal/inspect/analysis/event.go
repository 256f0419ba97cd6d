package analysis

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/protocol"
)

// Side says from which end of a connection something came.
type Side uint8

// The sides. A and B are used while it is not known which end is the Initiator of
// MPA; A is the end in [Opened].A.
const (
	SideNone Side = iota
	Initiator
	Responder
	SideA
	SideB
)

var sideNames = [...]string{"", "initiator", "responder", "a", "b"}

// String names the side, "" for SideNone.
func (s Side) String() string {
	if int(s) < len(sideNames) {
		return sideNames[s]
	}
	return fmt.Sprintf("side %d", uint8(s))
}

// MarshalText returns the name.
func (s Side) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *Side) UnmarshalText(b []byte) error {
	for i, n := range sideNames {
		if n == string(b) {
			*s = Side(i)
			return nil
		}
	}
	return fmt.Errorf("capture: %q is no side", b)
}

// Hex is octets that are hexadecimal digits in JSON.
type Hex []byte

// MarshalText returns lower-case hexadecimal digits.
func (h Hex) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText reads hexadecimal digits.
func (h *Hex) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

// STag is a [ddp.STag] that is "0x%08x" in JSON.
type STag ddp.STag

// String returns 0x and eight hexadecimal digits.
func (s STag) String() string { return ddp.STag(s).String() }

// MarshalText returns what String returns.
func (s STag) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *STag) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "0x%08x", (*uint32)(s))
	return err
}

// Event is something that a [Reader] found: a pointer to one of the structs of
// this package that embed [Head]. It is the caller's to keep.
type Event interface {
	// Header returns what all events have.
	Header() *Head
	sealed()
}

// The names of the events, in [Head].Event.
const (
	EventOpened     = "opened"
	EventStartup    = "startup"
	EventNegotiated = "negotiated"
	EventFPDU       = "fpdu"
	EventMessage    = "message"
	EventVerdict    = "verdict"
	EventAnomaly    = "anomaly"
	EventHint       = "hint"
	EventClosed     = "closed"
)

// Head is common to all events.
type Head struct {
	// Event is the name of the kind of event.
	Event string `json:"event"`
	// Conn is the connection's number, from 1 in the order of detection.
	Conn int `json:"conn"`
	// Frame is the number of the frame that completed what the event tells,
	// counted from 1 over the whole file, as Wireshark does.
	Frame uint64 `json:"frame"`
	// Time is that of the frame.
	Time time.Time `json:"time"`
	// From is the end that sent it; SideNone if that does not apply.
	From Side `json:"from,omitempty"`
}

// Header returns h itself.
func (h *Head) Header() *Head { return h }
func (h *Head) sealed()       {}

// Opened is the first event of each connection: iWARP was found on it.
type Opened struct {
	Head
	// A is the Initiator if Roles is true, else the end whose FPDU was found
	// first.
	A     netip.AddrPort `json:"a"`
	B     netip.AddrPort `json:"b"`
	Roles bool           `json:"roles"`
	// MidStream says that the startup is not in the capture.
	MidStream bool `json:"mid_stream"`
	// Interface is the number of the interface in the file, from 0.
	Interface int `json:"interface"`
	// Why tells by what iWARP was recognized.
	Why string `json:"why"`
}

// Block is the block of RFC 6581 in a startup frame
// (https://www.rfc-editor.org/rfc/rfc6581#section-9).
type Block struct {
	PeerToPeer bool `json:"peer_to_peer"`
	// RTR lists the kinds: "write,read,send" or "none".
	RTR string `json:"rtr"`
	// IRD and ORD are as the frame says, 16383 (0x3fff) meaning that the value is
	// not negotiated.
	IRD int `json:"ird"`
	ORD int `json:"ord"`
}

// StartupFrame is an MPA Request or Reply
// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.1).
type StartupFrame struct {
	Head
	FirstFrame uint64 `json:"first_frame"`
	// Kind is "Request" or "Reply".
	Kind     string `json:"kind"`
	Markers  bool   `json:"m"`
	CRC      bool   `json:"c"`
	Reject   bool   `json:"r"`
	Enhanced bool   `json:"s"`
	Reserved uint8  `json:"res"`
	Revision uint8  `json:"rev"`
	// PrivateData is all of it, ULPData what follows the block of RFC 6581.
	PrivateData Hex    `json:"private_data"`
	Block       *Block `json:"block,omitempty"`
	ULPData     Hex    `json:"ulp_data"`
	// Offset is where the frame begins, in octets of its direction of TCP.
	Offset uint64 `json:"offset"`
	// Octets is the frame as it came.
	Octets Hex `json:"-"`
}

// Negotiated tells what the two startup frames agree on.
type Negotiated struct {
	Head
	// Accepted is false after a Reply with R=1, and when the Reply breaks the
	// rules so that the Initiator must close.
	Accepted bool  `json:"accepted"`
	Revision uint8 `json:"rev"`
	// InitiatorMarkers and ResponderMarkers say who puts Markers into what it
	// sends.
	InitiatorMarkers bool `json:"initiator_markers"`
	ResponderMarkers bool `json:"responder_markers"`
	CRC              bool `json:"crc"`
	Enhanced         bool `json:"enhanced"`
	PeerToPeer       bool `json:"peer_to_peer"`
	// RTR lists the kinds of RTR that both ends support.
	RTR string `json:"rtr"`
	// InitiatorDepth is how many Reads and atomics the Initiator may have
	// outstanding, ResponderDepth the same of the Responder; -1 if it was not
	// negotiated.
	InitiatorDepth int `json:"initiator_depth"`
	ResponderDepth int `json:"responder_depth"`
	// Problem is what the Initiator must hold against the Reply, "" if nothing.
	Problem string `json:"problem,omitempty"`
	// RoundTrip is the time from Request to Reply.
	RoundTrip time.Duration `json:"round_trip_ns"`
}

// FPDU is one FPDU, if [ReaderOptions].FPDUs asks for them.
type FPDU struct {
	Head
	FirstFrame uint64 `json:"first_frame"`
	// Offset is where it begins, in octets since Full Operation began in this
	// direction, or since where iWARP was found.
	Offset uint64 `json:"offset"`
	// Length is that of all of it on the wire, in octets: with Markers, PAD and
	// CRC. Octets is as much of it as the capture holds, Markers included, and
	// ULPDU the content.
	Length int `json:"length"`
	Octets Hex `json:"octets"`
	ULPDU  Hex `json:"-"`
	// CRC is "good", "bad", "off" (not used by this connection) or "unknown" (cut).
	CRC string `json:"crc"`
	// Markers are the offsets of the Markers in Octets.
	Markers []int `json:"markers,omitempty"`
	// Aligned says that it begins a TCP segment.
	Aligned bool `json:"aligned"`
	// Cut says that some of its octets are not in the capture.
	Cut bool `json:"cut,omitempty"`
}

// ReadRequest is what an RDMA Read Request asks for
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.4).
type ReadRequest struct {
	SinkSTag STag   `json:"sink_stag"`
	SinkTO   uint64 `json:"sink_to"`
	Size     uint32 `json:"size"`
	SrcSTag  STag   `json:"src_stag"`
	SrcTO    uint64 `json:"src_to"`
}

// AtomicRequest is what an Atomic Request asks for
// (https://www.rfc-editor.org/rfc/rfc7306#section-5.2.1).
type AtomicRequest struct {
	Op          string `json:"op"`
	ID          uint32 `json:"id"`
	STag        STag   `json:"stag"`
	TO          uint64 `json:"to"`
	Data        uint64 `json:"data"`
	Mask        uint64 `json:"mask"`
	Compare     uint64 `json:"compare"`
	CompareMask uint64 `json:"compare_mask"`
}

// AtomicResponse answers an [AtomicRequest].
type AtomicResponse struct {
	ID       uint32 `json:"id"`
	Original uint64 `json:"original"`
}

// Terminate is the content of a Terminate message
// (https://www.rfc-editor.org/rfc/rfc5040#section-4.8).
type Terminate struct {
	Layer uint8 `json:"layer"`
	Type  uint8 `json:"etype"`
	Code  uint8 `json:"code"`
	// Text is the error in words, and that of the segment that is echoed.
	Text string `json:"text"`
	M    bool   `json:"m"`
	D    bool   `json:"d"`
	R    bool   `json:"r"`
	// SegmentLength is the DDP Segment Length, -1 if it is not there.
	SegmentLength int `json:"segment_length"`
	// DDPHeader and RDMAPHeader are what is echoed.
	DDPHeader   Hex `json:"ddp_header,omitempty"`
	RDMAPHeader Hex `json:"rdmap_header,omitempty"`
	// OffenderFrame is the frame of the latest segment with that DDP header, 0 if
	// there is none among those before.
	OffenderFrame uint64 `json:"offender_frame,omitempty"`
}

// Answer says which request a response answers.
type Answer struct {
	RequestFrame uint64    `json:"request_frame"`
	RequestTime  time.Time `json:"request_time"`
	// Latency is the time from the request's last octet to the response's last.
	Latency time.Duration `json:"latency_ns"`
	MSN     uint32        `json:"msn"`
	Size    uint32        `json:"size"`
	SrcSTag STag          `json:"src_stag"`
	SrcTO   uint64        `json:"src_to"`
}

// Message is one RDMA message
// (https://www.rfc-editor.org/rfc/rfc5040#section-4). Fields that its kind does
// not have are zero.
type Message struct {
	Head
	FirstFrame uint64 `json:"first_frame"`
	// Start is the time of the first frame.
	Start  time.Time `json:"start"`
	Op     string    `json:"op"`
	Opcode uint8     `json:"opcode"`
	// Segments is the number of DDP segments, Length that of the octets behind
	// their DDP headers.
	Segments int    `json:"segments"`
	Length   uint64 `json:"length"`
	// Offset is where its first FPDU begins, as in [FPDU].
	Offset uint64 `json:"offset"`

	Tagged bool   `json:"tagged"`
	STag   STag   `json:"stag"`
	TO     uint64 `json:"to"`

	QN         uint32 `json:"qn"`
	MSN        uint32 `json:"msn"`
	Invalidate *STag  `json:"invalidate_stag,omitempty"`

	// RTR says that it is the RTR indication of RFC 6581.
	RTR bool `json:"rtr,omitempty"`
	// Partial says that not all of it is in the capture.
	Partial bool `json:"partial,omitempty"`
	// Cut says that headers are there and octets of the payload are not.
	Cut bool `json:"cut,omitempty"`

	ReadRequest    *ReadRequest    `json:"read_request,omitempty"`
	AtomicRequest  *AtomicRequest  `json:"atomic_request,omitempty"`
	AtomicResponse *AtomicResponse `json:"atomic_response,omitempty"`
	Immediate      *uint64         `json:"immediate,omitempty"`
	Terminate      *Terminate      `json:"terminate,omitempty"`
	Answers        *Answer         `json:"answers,omitempty"`
	// Payload is the first octets of the ULP's payload: see
	// [ReaderOptions].Payload.
	Payload Hex `json:"payload,omitempty"`
}

// Verdict says that a sender broke a rule, as a strict receiver sees it.
type Verdict struct {
	Head
	// Rule is the requirement's number in the project's list, Summary its text.
	Rule    string `json:"rule"`
	Summary string `json:"summary"`
	// Level is "MUST", "MUST NOT", "SHOULD", or "DEF" for a format that the RFC
	// only describes.
	Level   string `json:"level"`
	RFC     int    `json:"rfc"`
	Section string `json:"section"`
	// Offset is that of the octet to blame: as in [FPDU], or in a startup frame's
	// case in octets of the direction of TCP.
	Offset   uint64 `json:"offset"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
}

// URL is where the RFC's section can be read.
func (v *Verdict) URL() string { return sectionURL(v.RFC, v.Section) }

// What an [Anomaly] can be.
const (
	AnomalyRetransmission = "retransmission" // octets came again
	AnomalyOverlap        = "overlap"        // octets came again and differ: the first ones count
	AnomalyOutOfOrder     = "out of order"   // a segment came before an earlier one
	AnomalyKeepAlive      = "keep-alive"
	AnomalyHole           = "hole"     // octets that are not in the capture
	AnomalyCut            = "cut"      // a segment that the snap length cut
	AnomalyFragment       = "fragment" // an IP fragment: not reassembled, so a hole
	AnomalyResync         = "resync"   // FPDUs found again; Length is the octets skipped
	AnomalyLost           = "lost"     // no FPDU where one was due
	AnomalyReset          = "reset"
	AnomalyStreaming      = "streaming"     // octets that are not MPA: before startup or after a refusal
	AnomalyUnfinished     = "unfinished"    // the direction ended within an FPDU or a message
	AnomalyContradiction  = "contradiction" // a Terminate blames a segment that looks right
)

// Anomaly is something worth a look that breaks no rule of iWARP.
type Anomaly struct {
	Head
	What string `json:"what"`
	// Offset and Length are octets of the direction of TCP.
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
	Detail string `json:"detail,omitempty"`
}

// Hint says what probably rides on the connection.
type Hint struct {
	Head
	Name string `json:"name"`
	// Why is what speaks for it.
	Why string `json:"why"`
}

// Closed is the last event of each connection.
type Closed struct {
	Head
	// How is "fin", "reset", "end of capture", "evicted" ([ReaderOptions].MaxConns)
	// or "reused" (its addresses and ports).
	How  string `json:"how"`
	Conn Conn   `json:"summary"`
}

// Conn is the summary of a connection.
type Conn struct {
	Number     int            `json:"number"`
	A          netip.AddrPort `json:"a"`
	B          netip.AddrPort `json:"b"`
	Roles      bool           `json:"roles"`
	MidStream  bool           `json:"mid_stream"`
	FirstFrame uint64         `json:"first_frame"`
	LastFrame  uint64         `json:"last_frame"`
	Start      time.Time      `json:"start"`
	End        time.Time      `json:"end"`
	Negotiated *Negotiated    `json:"negotiated,omitempty"`
	// CRC is "on", "off", or "unknown" where the startup was not seen and no CRC
	// decided it.
	CRC string `json:"crc"`
	// From is what A and what B sent.
	From [2]DirStats `json:"from"`
	// Reads and Atomics are the latencies from request to response.
	Reads    Latency        `json:"reads"`
	Atomics  Latency        `json:"atomics"`
	Hints    []string       `json:"hints,omitempty"`
	Verdicts map[string]int `json:"verdicts,omitempty"` // by rule
}

// Latency are percentiles. They are exact up to 1024 samples, and within two per
// cent above.
type Latency struct {
	Count uint64        `json:"count"`
	Min   time.Duration `json:"min_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// DirStats counts what one end sent.
type DirStats struct {
	// Octets of TCP payload, each once; Segments with payload, all of them.
	Octets   uint64 `json:"octets"`
	Segments uint64 `json:"segments"`
	// Segments of Full Operation, and how many of these begin with an FPDU.
	FPDUSegments    uint64 `json:"fpdu_segments"`
	AlignedSegments uint64 `json:"aligned_segments"`

	FPDUs   uint64 `json:"fpdus"`
	Markers uint64 `json:"markers"`
	// Marked says that there are Markers in this direction.
	Marked  bool   `json:"marked"`
	CRCGood uint64 `json:"crc_good"`
	CRCBad  uint64 `json:"crc_bad"`
	CRCOff  uint64 `json:"crc_off"`

	Retransmissions     uint64 `json:"retransmissions"`
	RetransmittedOctets uint64 `json:"retransmitted_octets"`
	OutOfOrder          uint64 `json:"out_of_order"`
	Overlaps            uint64 `json:"overlaps"`
	KeepAlives          uint64 `json:"keep_alives"`
	Holes               uint64 `json:"holes"`
	HoleOctets          uint64 `json:"hole_octets"`

	// Messages by operation, and the octets of ULP payload in FPDUs.
	Messages      map[string]uint64 `json:"messages"`
	PayloadOctets uint64            `json:"payload_octets"` // behind DDP headers: RDMAP headers count
	// MaxOutstanding is the most Reads and atomics of this end that were
	// unanswered at a time.
	MaxOutstanding int `json:"max_outstanding"`
	// Gap is the longest time between two FPDUs, GapFrame the frame before it.
	Gap      time.Duration `json:"gap_ns"`
	GapFrame uint64        `json:"gap_frame"`
	Verdicts int           `json:"verdicts"`
}

// Field is a named part of an FPDU or a startup frame.
type Field struct {
	Name string `json:"name"`
	// Offset and Length are octets of Octets. A field into which a Marker falls
	// is longer by it.
	Offset int    `json:"offset"`
	Length int    `json:"length"`
	Value  string `json:"value"`
	// Note explains the value.
	Note string `json:"note,omitempty"`
}

func newBlock(e protocol.Enhanced) *Block {
	return &Block{PeerToPeer: e.PeerToPeer, RTR: e.RTR.String(), IRD: int(e.IRD), ORD: int(e.ORD)}
}
