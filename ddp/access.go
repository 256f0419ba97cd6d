package ddp

import "strings"

// Access is the set of rights that a region gives to remote peers
// (https://www.rfc-editor.org/rfc/rfc5041#section-8.3.1). The empty set gives
// none. There is no local right: who has the slice can use it.
type Access uint8

// The rights.
const (
	RemoteRead   Access = 1 << iota // RDMA Read may fetch
	RemoteWrite                     // RDMA Write, or another tagged message, may place
	RemoteAtomic                    // atomic operations may fetch and change (RFC 7306)

	allAccess = RemoteRead | RemoteWrite | RemoteAtomic
)

// Has reports whether a holds every right of need.
func (a Access) Has(need Access) bool { return a&need == need }

// String lists the rights, "none" for the empty set.
func (a Access) String() string {
	var names []string
	for _, r := range [...]struct {
		bit  Access
		name string
	}{{RemoteRead, "read"}, {RemoteWrite, "write"}, {RemoteAtomic, "atomic"}, {^allAccess, "unknown"}} {
		if a&r.bit != 0 {
			names = append(names, r.name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ",")
}

// PD is a Protection Domain: a group of streams that may share Tagged Buffers
// (https://www.rfc-editor.org/rfc/rfc5041#section-8.2). The numbers are the
// caller's; 0 is no domain.
type PD uint64

// StreamID names one DDP stream among those that use a [Table]. The numbers are
// the caller's and must not be used again while a region of the old stream
// stands; 0 is no stream.
type StreamID uint64

// Peer is who asks for access: the stream that a segment came on, and the domain
// of that stream.
type Peer struct {
	PD     PD
	Stream StreamID
}
