package uabi

// The commands of rdma_cm: RDMA_USER_CM_CMD_*.
const (
	CMCreateID     = 0
	CMDestroyID    = 1
	CMBindIP       = 2
	CMResolveIP    = 3
	CMResolveRoute = 4
	CMQueryRoute   = 5
	CMConnect      = 6
	CMListen       = 7
	CMAccept       = 8
	CMReject       = 9
	CMDisconnect   = 10
	CMInitQPAttr   = 11
	CMGetEvent     = 12
	CMSetOption    = 14
	CMNotify       = 15
	CMMigrateID    = 18
	CMQuery        = 19
	CMBind         = 20
	CMResolveAddr  = 21
)

// Events: enum rdma_cm_event_type.
const (
	EventAddrResolved   = 0
	EventAddrError      = 1
	EventRouteResolved  = 2
	EventRouteError     = 3
	EventConnectRequest = 4
	EventConnectError   = 6
	EventUnreachable    = 7
	EventRejected       = 8
	EventEstablished    = 9
	EventDisconnected   = 10
)

// Sockaddr6 is a struct sockaddr_in6, or a sockaddr_in in its room.
type Sockaddr6 [28]uint8

// SockaddrStorage is a struct sockaddr_storage.
type SockaddrStorage [128]uint8

// CMCreateIDCmd is the body of CMCreateID.
type CMCreateIDCmd struct {
	UID, Response uint64
	PortSpace     uint16
	QPType        uint8
	Reserved      [5]uint8
}

// CMIDCmd is the body of CMDestroyID.
type CMIDCmd struct {
	Response     uint64
	ID, Reserved uint32
}

// CMBindIPCmd is the body of CMBindIP.
type CMBindIPCmd struct {
	Response uint64
	Addr     Sockaddr6
	ID       uint32
}

// CMBindCmd is the body of CMBind.
type CMBindCmd struct {
	ID             uint32
	Size, Reserved uint16
	Addr           SockaddrStorage
}

// CMResolveIPCmd is the body of CMResolveIP.
type CMResolveIPCmd struct {
	Src, Dst      Sockaddr6
	ID, TimeoutMS uint32
}

// CMResolveAddrCmd is the body of CMResolveAddr.
type CMResolveAddrCmd struct {
	ID, TimeoutMS    uint32
	SrcSize, DstSize uint16
	Reserved         uint32
	Src, Dst         SockaddrStorage
}

// CMResolveRouteCmd is the body of CMResolveRoute.
type CMResolveRouteCmd struct{ ID, TimeoutMS uint32 }

// CMQueryCmd is the body of CMQueryRoute, CMQuery and CMMigrateID, whose option is not
// one.
type CMQueryCmd struct {
	Response   uint64
	ID, Option uint32
}

// The options of CMQuery.
const (
	CMQueryAddr = 0
	CMQueryPath = 1
	CMQueryGID  = 2
)

// CMQueryRouteResp answers CMQueryRoute.
type CMQueryRouteResp struct {
	NodeGUID  [8]uint8
	Routes    [128]uint8
	Src, Dst  Sockaddr6
	Paths     uint32
	Port      uint8
	Reserved  [3]uint8
	Device    uint32
	Reserved1 uint32
}

// CMQueryAddrResp answers CMQuery for an address, and for a GID in its first 272
// octets.
type CMQueryAddrResp struct {
	NodeGUID         [8]uint8
	Port, Reserved   uint8
	PKey             uint16
	SrcSize, DstSize uint16
	Src, Dst         SockaddrStorage
	Device           uint32
	Reserved1        uint32
}

// CMQueryPathResp answers CMQuery for paths, which iWARP has none of.
type CMQueryPathResp struct{ Paths, Reserved uint32 }

// ConnParam is struct rdma_ucm_conn_param.
type ConnParam struct {
	QPN, QKey                           uint32
	PrivateData                         [256]uint8
	PrivateLen, SRQ                     uint8
	ResponderResources, InitiatorDepth  uint8
	FlowControl, Retry, RNRRetry, Valid uint8
}

// CMConnectCmd is the body of CMConnect.
type CMConnectCmd struct {
	Param ConnParam
	ID    uint32
	_     uint32
}

// CMListenCmd is the body of CMListen.
type CMListenCmd struct{ ID, Backlog uint32 }

// CMAcceptCmd is the body of CMAccept.
type CMAcceptCmd struct {
	UID   uint64
	Param ConnParam
	ID    uint32
	_     uint32
}

// CMRejectCmd is the body of CMReject.
type CMRejectCmd struct {
	ID                 uint32
	PrivateLen, Reason uint8
	Reserved           [2]uint8
	PrivateData        [256]uint8
}

// CMDisconnectCmd is the body of CMDisconnect.
type CMDisconnectCmd struct{ ID uint32 }

// CMInitQPAttrCmd is the body of CMInitQPAttr.
type CMInitQPAttrCmd struct {
	Response    uint64
	ID, QPState uint32
}

// QPAttr answers it: struct ib_uverbs_qp_attr.
type QPAttr struct {
	Mask, State, CurrentState, PathMTU, Migration uint32
	QKey, RecvPSN, SendPSN, DestQPN, Access       uint32
	Addr, AltAddr                                 [32]uint8
	Caps                                          Caps
	PKeyIndex, AltPKeyIndex                       uint16
	SQDNotes, SQDraining, MaxReads, MaxDestReads  uint8
	MinRNR, Port, Timeout, Retry, RNRRetry        uint8
	AltPort, AltTimeout                           uint8
	Reserved                                      [5]uint8
}

// CMNotifyCmd is the body of CMNotify.
type CMNotifyCmd struct{ ID, Event uint32 }

// CMSetOptionCmd is the body of CMSetOption.
type CMSetOptionCmd struct {
	Value                      uint64 // address
	ID, Level, Name, ValueSize uint32
}

// EventResp answers CMGetEvent.
type EventResp struct {
	UID               uint64
	ID, Event, Status uint32
	Param             ConnParam
	Rest              [44]uint8 // of the larger parameters of datagrams, and what is reserved
}
