package mpa

import (
	"fmt"

	"github.com/go-iwarp/iwarp/protocol"
)

// Revisions of the startup frames that this package speaks.
const (
	Revision0 = 0 // RDMA Consortium: see [RDMAC]
	Revision1 = 1 // RFC 5044
	Revision2 = 2 // RFC 6581
)

// Options is what one end wants from a connection. A nil *Options is one with CRC
// on, no RTR kind, and IRD and ORD not negotiated.
type Options struct {
	// Revision of the Request, 1 or 2; 0 means 2. A Responder answers in the
	// revision of the Request and ignores this.
	Revision uint8
	// Markers asks the peer to put Markers into what it sends. Whether this end
	// sends Markers is for the peer to say.
	Markers bool
	// NoCRC gives up the CRC, if the peer does too. Set it only on an
	// administrator's explicit wish, and only where something at least as strong
	// as a CRC32c from end to end protects the connection
	// (https://www.rfc-editor.org/rfc/rfc5044#section-4.4).
	NoCRC bool
	// RTR is the set of RTR kinds that this end supports. As Initiator, a set
	// that is not empty asks for a peer-to-peer connection (A=1). As Responder,
	// the empty set means Write and Read: RFC 6581 section 9.2 demands one kind
	// at least. Revision 1 has no RTR.
	RTR protocol.RTR
	// IRD is how many RDMA Reads and atomics of the peer this end takes at a
	// time, ORD how many of its own it wants to have outstanding: 0 to 16382, or
	// [protocol.NotNegotiated].
	IRD, ORD int
	// PrivateData is handed to the peer's ULP: at most 512 octets, 508 in a frame
	// of RFC 6581. It is copied.
	PrivateData []byte
	// FPDUMax, if not 0, is used in place of the EMSS of TCP as the bound of an
	// FPDU, in octets: see [Conn.SetFPDUMax].
	FPDUMax int
	// VerifyReply, if not nil, is asked by [Initiate] about an accepting Reply, before
	// Full Operation: p is what holds if it returns nil. After an error Initiate
	// returns it in a *[DeclinedError], with TCP open. It owns p.PrivateData.
	VerifyReply func(p Params) error
	// RDMAC is the policy for a peer of revision 0.
	RDMAC RDMAC
	// Align says how hard to work for FPDUs that start at TCP segments.
	Align Align
}

// Params is what the two ends have agreed on. It does not change while the
// connection lives.
type Params struct {
	Initiator   bool  // this end sent the Request
	Revision    uint8 // as in both frames
	SendMarkers bool  // this end marks what it sends
	RecvMarkers bool  // the peer marks what it sends
	CRC         bool  // CRCs are made and checked, in both directions
	Enhanced    bool  // the frames carried the block of RFC 6581
	PeerToPeer  bool  // the Initiator opens the stream with an RTR
	// RTR is the set of RTR kinds that both ends support.
	RTR protocol.RTR
	// IRD and ORD are this end's own after the negotiation; [protocol.NotNegotiated] if
	// this end left them open.
	IRD, ORD int
	// PeerIRD and PeerORD are what the peer said; [protocol.NotNegotiated] if it said
	// nothing.
	PeerIRD, PeerORD int
	// PrivateData is what the peer's ULP sent.
	PrivateData []byte
}

// RejectError says that the Responder refused the connection. TCP stays open and
// is the caller's again (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2
// rule 3).
type RejectError struct {
	Revision    uint8
	PrivateData []byte       // of the Responder's ULP
	Enhanced    bool         // the Reply carried the block of RFC 6581
	RTR         protocol.RTR // RTR kinds that the Responder supports
	// PeerIRD and PeerORD are what the Responder would need; [protocol.NotNegotiated] if
	// it said nothing.
	PeerIRD, PeerORD int
}

// Error tells of the refusal.
func (e *RejectError) Error() string {
	return fmt.Sprintf("iwarp: peer rejects the connection (%d octets of Private Data) [RFC 5044 section 7.1.2]",
		len(e.PrivateData))
}

// NewRequest makes the Request of an Initiator. With nothing to negotiate that
// needs RFC 6581 (no RTR kind, IRD and ORD both [protocol.NotNegotiated]) the frame is
// one of revision 1, as https://www.rfc-editor.org/rfc/rfc6581#section-10 wants.
func NewRequest(o *Options) (Startup, error) {
	o = o.orDefault()
	// Rule: MPA-4.3-02, MPA-4.4-02, MPA-4.4-03, MPA-7.1.2-01
	s := Startup{Kind: Request, Revision: o.Revision, Markers: o.Markers, CRC: !o.NoCRC}
	if s.Revision == 0 {
		s.Revision = Revision2
	}
	if s.Revision > Revision2 {
		return Startup{}, fmt.Errorf("iwarp: revision %d is not known, want 1 or 2 (RFC 6581 section 6)", s.Revision)
	}
	if err := o.check(); err != nil {
		return Startup{}, err
	}
	// Rule: MPA2-10-03, MPA-7.1.1-14
	if o.RTR == 0 && o.IRD == protocol.NotNegotiated && o.ORD == protocol.NotNegotiated {
		s.Revision = Revision1
	}
	var block *protocol.Enhanced
	if s.Revision >= Revision2 {
		// Rule: MPA2-9.2-02, MPA2-5-01
		block = &protocol.Enhanced{PeerToPeer: o.RTR != 0, RTR: o.RTR, IRD: uint16(o.IRD), ORD: uint16(o.ORD)}
	}
	// Rule: MPA-7.1.2-02
	if err := s.setData(block, o.PrivateData); err != nil {
		return Startup{}, err
	}
	return s, nil
}

// Answer makes a Responder's accepting Reply to req, and what holds when it has
// been sent. It does no I/O. The error is a *[protocol.Error] with code
// [protocol.MPAStartup] if req cannot be answered (close TCP then), any other
// type if o cannot be used.
//
// Rules: https://www.rfc-editor.org/rfc/rfc6581#section-9 and #section-10.
func Answer(req *Startup, o *Options) (reply Startup, p Params, err error) {
	o = o.orDefault()
	if err := checkRequest(req, o); err != nil {
		return Startup{}, Params{}, err
	}
	// Rule: MPA2-10-02, MPA2-6-04, MPA-7.1.2-08
	reply = Startup{
		Kind: Reply, Revision: req.Revision, Markers: o.Markers,
		// Saying C=1 whenever CRCs will be used costs nothing and serves peers that
		// look at the Reply alone.
		CRC: req.CRC || !o.NoCRC,
	}
	// Rule: MPA-C.2.3-01
	if req.Revision == Revision0 {
		reply.Markers, reply.CRC = true, true // RFC 5044 Appendix C.2.4
	}
	// Rule: MPA-7.1.1-06, MPA-7.1.1-07, MPA-7.1.1-08, MPA-7.1.1-09, MPA-3-10, MPA-4.4-04, MPA-4.4-07
	p = Params{
		Revision: req.Revision, SendMarkers: req.Markers, RecvMarkers: reply.Markers, CRC: reply.CRC,
		IRD: o.IRD, ORD: o.ORD, PeerIRD: protocol.NotNegotiated, PeerORD: protocol.NotNegotiated,
		PrivateData: req.ULPData(),
	}
	var block *protocol.Enhanced
	// Rule: MPA2-10-01
	if asked, ok := req.Block(); ok {
		b := answerBlock(asked, o, &p)
		block = &b
	}
	// Rule: MPA-7.1.2-03
	if err := reply.setData(block, o.PrivateData); err != nil {
		return Startup{}, Params{}, err
	}
	return reply, p, nil
}

// answerBlock settles the block of RFC 6581 as the Responder does.
func answerBlock(asked protocol.Enhanced, o *Options, p *Params) protocol.Enhanced {
	// Rule: MPA2-9.2-04, MPA2-9.1-10, MPA2-9.1-12
	block := protocol.Enhanced{PeerToPeer: asked.PeerToPeer, IRD: protocol.NotNegotiated, ORD: protocol.NotNegotiated}
	p.Enhanced, p.PeerToPeer = true, asked.PeerToPeer
	// Rule: MPA2-9.1-02
	p.PeerIRD, p.PeerORD = int(asked.IRD), int(asked.ORD)
	if asked.PeerToPeer {
		supported := o.responderRTR()
		// Rule: MPA2-9.2-05, MPA2-9.2-06
		p.RTR = asked.RTR & supported
		block.RTR = p.RTR
		if block.RTR == 0 {
			// Without a common kind the Reply still names what is supported, and
			// the Initiator answers with a Terminate.
			block.RTR = supported
		}
	}
	// The values are seen from each end's own side, so they meet crosswise. A
	// value that either side leaves open is changed on neither.
	if p.PeerORD != protocol.NotNegotiated && o.IRD != protocol.NotNegotiated {
		// Rule: MPA2-9.1-01
		p.IRD = min(o.IRD, p.PeerORD)
		if p.IRD == 0 && block.RTR.Has(protocol.RTRRead) {
			// Rule: MPA2-9.1-04
			p.IRD = 1 // an RTR Read takes a place in the queue too
		}
		block.IRD = uint16(p.IRD)
	}
	if p.PeerIRD != protocol.NotNegotiated && o.ORD != protocol.NotNegotiated {
		// Rule: MPA2-9.1-01, MPA2-9.1-03
		p.ORD = min(o.ORD, p.PeerIRD)
		block.ORD = uint16(p.ORD)
	}
	return block
}

// RejectReply makes a Responder's refusing Reply (R=1) to req with pd as the
// ULP's Private Data. To an enhanced Request it also tells o's RTR kinds, IRD and
// ORD, the latter being what the Responder would need
// (https://www.rfc-editor.org/rfc/rfc6581#section-9.1). Errors are as those of
// [Answer].
func RejectReply(req *Startup, o *Options, pd []byte) (Startup, error) {
	o = o.orDefault()
	if err := checkRequest(req, o); err != nil {
		return Startup{}, err
	}
	// Rule: MPA-7.1.1-12, MPA-7.1.2-06, MPA-7.1.2-17
	reply := Startup{Kind: Reply, Revision: req.Revision, Markers: o.Markers, CRC: req.CRC || !o.NoCRC, Reject: true}
	var block *protocol.Enhanced
	if asked, ok := req.Block(); ok {
		// Rule: MPA2-9.1-05
		block = &protocol.Enhanced{PeerToPeer: asked.PeerToPeer, IRD: uint16(o.IRD), ORD: uint16(o.ORD)}
		if asked.PeerToPeer {
			block.RTR = o.responderRTR()
		}
	}
	// Rule: MPA-7.1.2-03
	if err := reply.setData(block, pd); err != nil {
		return Startup{}, err
	}
	return reply, nil
}

// Conclude tells an Initiator what the Reply to its Request means. It does no
// I/O. Errors:
//
//   - *[RejectError]: the Responder refuses, TCP stays open;
//   - *[protocol.Error] with [protocol.MPAStartup]: the Reply breaks the rules, TCP must be closed;
//   - *[protocol.Error] with [protocol.MPAInsufficientIRD] or [protocol.MPANoMatchingRTR]: both ends
//     are in Full Operation but do not fit; Params is good enough to send the Terminate that
//     https://www.rfc-editor.org/rfc/rfc6581#section-9 demands;
//   - any other: o cannot be used.
func Conclude(req, reply *Startup, o *Options) (Params, error) {
	o = o.orDefault()
	if err := o.check(); err != nil {
		return Params{}, err
	}
	if err := checkReply(req, reply, o); err != nil {
		return Params{}, err
	}
	block, enhanced := reply.Block()
	// Rule: MPA-7.1.1-12, MPA-7.1.2-12, MPA-7.1.4.2-02
	if reply.Reject {
		e := &RejectError{
			Revision: reply.Revision, PrivateData: reply.ULPData(),
			Enhanced: enhanced, PeerIRD: protocol.NotNegotiated, PeerORD: protocol.NotNegotiated,
		}
		if enhanced {
			// Rule: MPA2-9.1-08
			e.RTR, e.PeerIRD, e.PeerORD = block.RTR, int(block.IRD), int(block.ORD)
		}
		return Params{}, e
	}
	// Rule: MPA-7.1.1-06, MPA-7.1.1-08, MPA-7.1.1-09, MPA-7.1.1-16, MPA-7.1.1-19, MPA-3-10, MPA-4.4-04, MPA-4.4-07
	p := Params{
		Initiator: true, Revision: reply.Revision, SendMarkers: reply.Markers, RecvMarkers: req.Markers,
		CRC: req.CRC || reply.CRC, Enhanced: enhanced,
		IRD: o.IRD, ORD: o.ORD, PeerIRD: protocol.NotNegotiated, PeerORD: protocol.NotNegotiated,
		PrivateData: reply.ULPData(),
	}
	if reply.Revision == Revision0 {
		// Rule: MPA-C.2.3-01
		p.SendMarkers, p.RecvMarkers, p.CRC = true, true, true // RFC 5044 Appendix C.2.5
	}
	if !enhanced {
		return p, nil
	}
	asked, _ := req.Block()
	err := concludeBlock(asked, block, o, &p)
	return p, err
}

// concludeBlock settles the block of RFC 6581 as the Initiator does.
func concludeBlock(asked, got protocol.Enhanced, o *Options, p *Params) error {
	p.PeerToPeer = asked.PeerToPeer
	// Rule: MPA2-9.1-02, MPA2-9.1-08
	p.PeerIRD, p.PeerORD = int(got.IRD), int(got.ORD)
	if p.PeerIRD != protocol.NotNegotiated && o.ORD != protocol.NotNegotiated {
		// Rule: MPA2-9.1-06, MPA2-9.1-11
		p.ORD = min(o.ORD, p.PeerIRD)
	}
	if asked.PeerToPeer {
		// Rule: MPA2-9.2-07, MPA2-9.2-08
		p.RTR = asked.RTR & got.RTR
		if p.PeerIRD == 0 {
			p.RTR &^= protocol.RTRRead // the peer has no room for the Read
		}
	}
	// Rule: MPA2-9.2-09
	if asked.PeerToPeer != got.PeerToPeer || (asked.PeerToPeer && p.RTR == 0) {
		return &protocol.Error{
			Code: protocol.MPANoMatchingRTR, Section: "RFC 6581 section 9.2",
			Detail: fmt.Sprintf("peer-to-peer is %t in the Request and %t in the Reply, RTR kinds %v and %v with IRD "+
				"%d",
				asked.PeerToPeer, got.PeerToPeer, asked.RTR, got.RTR, p.PeerIRD),
		}
	}
	// Rule: MPA2-9.1-07, MPA2-9.1-13
	if o.IRD != protocol.NotNegotiated && p.PeerORD != protocol.NotNegotiated && p.PeerORD > o.IRD {
		return &protocol.Error{
			Code: protocol.MPAInsufficientIRD, Section: "RFC 6581 section 9.1",
			Detail: fmt.Sprintf("the Responder's ORD is %d, this end's IRD is %d", p.PeerORD, o.IRD),
		}
	}
	return nil
}

// checkRequest is what a Responder holds against a Request, and against o.
func checkRequest(req *Startup, o *Options) error {
	// Rule: MPA-7.1.1-13
	if req.Kind != Request {
		return startupError("RFC 5044 section 7.1.2", "a %v where a Request was due", req.Kind)
	}
	if err := o.RDMAC.admits(req.Revision); err != nil {
		return err
	}
	if _, ok := req.Block(); req.Enhanced && !ok {
		return startupError("RFC 6581 section 6", "flag S with %d octets of Private Data, want a block of %d",
			len(req.PrivateData), protocol.EnhancedLen)
	}
	return o.check()
}

// checkReply is what an Initiator holds against a Reply. A refusal is taken in
// any form: the Responder may refuse for the very reason that it cannot answer
// in the form of the Request.
func checkReply(req, reply *Startup, o *Options) error {
	if reply.Kind != Reply {
		return startupError("RFC 5044 section 7.1.2", "a %v where a Reply was due", reply.Kind)
	}
	if err := o.RDMAC.admits(reply.Revision); err != nil {
		return err
	}
	if _, ok := reply.Block(); reply.Enhanced && !ok {
		return startupError("RFC 6581 section 6", "flag S with %d octets of Private Data, want a block of %d",
			len(reply.PrivateData), protocol.EnhancedLen)
	}
	// Rule: MPA-7.1.2-12
	if reply.Reject || reply.Revision == Revision0 {
		return nil
	}
	// Rule: MPA-7.1.1-15, MPA-7.1.2-10
	if reply.Revision != req.Revision {
		return startupError("RFC 5044 section 7.1.1", "Rev of the Reply is %d, of the Request %d", reply.Revision,
			req.Revision)
	}
	// Rule: MPA2-10-01, MPA2-10-02
	if reply.Enhanced != req.Enhanced {
		return startupError("RFC 6581 section 10", "flag S is %t in the Reply and %t in the Request", reply.Enhanced,
			req.Enhanced)
	}
	return nil
}

func (o *Options) orDefault() *Options {
	if o == nil {
		return &Options{IRD: protocol.NotNegotiated, ORD: protocol.NotNegotiated}
	}
	return o
}

func (o *Options) check() error {
	for _, f := range [...]struct {
		name  string
		value int
	}{{"IRD", o.IRD}, {"ORD", o.ORD}} {
		if f.value < 0 || f.value > protocol.NotNegotiated {
			return fmt.Errorf("iwarp: %s is %d, want 0 to %d, or %d to leave it to the ULPs (RFC 6581 section 9.1)",
				f.name, f.value, protocol.MaxDepth, protocol.NotNegotiated)
		}
	}
	if known := protocol.RTRSend | protocol.RTRWrite | protocol.RTRRead; o.RTR&^known != 0 {
		return fmt.Errorf("iwarp: RTR 0x%02x has unknown kinds (RFC 6581 section 9.2)", uint8(o.RTR))
	}
	return nil
}

// responderRTR is never empty: RFC 6581 section 9.2.
func (o *Options) responderRTR() protocol.RTR {
	// Rule: MPA2-9.2-03
	if o.RTR == 0 {
		return protocol.RTRWrite | protocol.RTRRead
	}
	return o.RTR
}

// setData fills PrivateData with a copy of block, if there is one, and pd.
func (s *Startup) setData(block *protocol.Enhanced, pd []byte) error {
	limit := MaxPrivateData
	var data []byte
	if block != nil {
		// Rule: MPA2-9-02
		limit = MaxULPData
		b, err := block.AppendTo(nil)
		if err != nil {
			return err
		}
		s.Enhanced, data = true, b
	}
	if len(pd) > limit {
		return fmt.Errorf("iwarp: Private Data of %d octets, at most %d fit this frame (RFC 5044 section 7.1.1, RFC "+
			"6581 section 9)",
			len(pd), limit)
	}
	s.PrivateData = append(data, pd...)
	return nil
}
