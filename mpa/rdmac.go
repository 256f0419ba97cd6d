package mpa

import "fmt"

// RDMAC says what to do with a peer that speaks the protocols of the RDMA
// Consortium, from before the RFCs: MPA revision 0, always with Markers and CRC,
// and version 0 of DDP and RDMAP above it. RFC 5044 Appendix C
// (https://www.rfc-editor.org/rfc/rfc5044#appendix-C) has the rules; they are
// informative.
type RDMAC uint8

// The policies.
const (
	// RDMACOff treats a frame of revision 0 as invalid: the connection is closed.
	RDMACOff RDMAC = iota
	// RDMACNonPermissive answers a Request of revision 0 with a Reply of revision 1
	// and then closes gracefully, so that the peer can tell why (Appendix C.2). As
	// Initiator it closes after a Reply of revision 0, as RDMACOff does.
	RDMACNonPermissive
	// RDMACPermissive speaks the Consortium's protocols to such a peer, in either
	// role. Params.Revision is 0 then, and the ULP above must use version 0 of DDP
	// and RDMAP.
	RDMACPermissive
)

// String returns the policy's name.
func (r RDMAC) String() string {
	switch r {
	case RDMACOff:
		return "off"
	case RDMACNonPermissive:
		return "non-permissive"
	case RDMACPermissive:
		return "permissive"
	}
	return fmt.Sprintf("policy %d", uint8(r))
}

// admits reports whether a connection with that revision may come about.
func (r RDMAC) admits(revision uint8) error {
	switch {
	// Rule: MPA-7.1.1-15, MPA2-6-04
	case revision == Revision1 || revision == Revision2:
		return nil
	// Rule: MPA-C.1-01, MPA-C.2.3-01
	case revision == Revision0 && r == RDMACPermissive:
		return nil
	case revision == Revision0:
		return startupError("RFC 5044 section 7.1.1", "Rev is 0, of the RDMA Consortium: the policy for it is %v", r)
	}
	return startupError("RFC 5044 section 7.1.1", "Rev is %d, want 1 or 2", revision)
}

// RequestOptions says what [ReadRequest] takes. Nil means the zero value.
type RequestOptions struct {
	// Buffered is what has been read from the conn already and not been used, on a
	// conn that has carried other data before
	// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.5). It is copied.
	Buffered []byte
	// MaxPrivateData is how many octets of the ULP's Private Data the caller can
	// take; a Request with more is a startup error
	// (https://www.rfc-editor.org/rfc/rfc5044#section-7.1.2 rule 9). 0 means what
	// fits a frame, a negative number none.
	MaxPrivateData int
	// RDMAC is the policy for a Request of revision 0.
	RDMAC RDMAC
	// Unenhanced is true for a Responder that does not support RFC 6581: a Request
	// of revision 2 is badly formed to it
	// (https://www.rfc-editor.org/rfc/rfc6581#section-10).
	Unenhanced bool
}

// judge refuses a revision as soon as its octet is there.
func (o *RequestOptions) judge(revision uint8) error {
	// Rule: MPA2-10-04
	if o.Unenhanced && revision >= Revision2 {
		return startupError("RFC 6581 section 10", "Rev is %d, and this end speaks revision 1 only", revision)
	}
	if revision == Revision0 && o.RDMAC == RDMACNonPermissive {
		return nil // it gets an answer
	}
	return o.RDMAC.admits(revision)
}
