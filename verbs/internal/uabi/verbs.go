package uabi

// The commands of uverbs0 that this module knows: enum ib_uverbs_write_cmds.
const (
	GetContext        = 0
	QueryDevice       = 1
	QueryPort         = 2
	AllocPD           = 3
	DeallocPD         = 4
	RegMR             = 9
	ReregMR           = 11
	DeregMR           = 13
	AllocMW           = 14
	DeallocMW         = 16
	CreateCompChannel = 17
	CreateCQ          = 18
	ResizeCQ          = 19
	DestroyCQ         = 20
	ReqNotifyCQ       = 23
	CreateQP          = 24
	QueryQP           = 25
	ModifyQP          = 26
	DestroyQP         = 27
	PostSend          = 28
	CreateSRQ         = 32
	ModifySRQ         = 33
	QuerySRQ          = 34
	DestroySRQ        = 35
)

// Resp is the address of the response, with which the body of most commands starts.
type Resp struct{ Response uint64 }

// GetContextResp answers GetContext.
type GetContextResp struct {
	AsyncFD     int32
	CompVectors uint32
}

// QueryDeviceResp answers QueryDevice.
type QueryDeviceResp struct {
	FirmwareVersion                           uint64
	NodeGUID, SystemGUID                      [8]byte
	MaxMRSize, PageSizes                      uint64
	VendorID, VendorPart, HardwareVersion     uint32
	MaxQP, MaxQPWR, CapFlags                  uint32
	MaxSGE, MaxSGERead, MaxCQ, MaxCQE         uint32
	MaxMR, MaxPD                              uint32
	MaxQPReads, MaxEEReads, MaxReads          uint32
	MaxQPInitReads, MaxEEInitReads            uint32
	AtomicCap                                 uint32
	MaxEE, MaxRDD, MaxMW                      uint32
	MaxRawIPv6QP, MaxRawEthQP                 uint32
	MaxMulticast, MaxMulticastQP, MaxMultiAll uint32
	MaxAH, MaxFMR, MaxMapFMR                  uint32
	MaxSRQ, MaxSRQWR, MaxSRQSGE               uint32
	MaxPKeys                                  uint16
	AckDelay, Ports                           uint8
	Reserved                                  [4]uint8
}

// QueryDeviceExResp answers the extended QueryDevice. A caller of an older kernel's ABI
// takes a shorter one.
type QueryDeviceExResp struct {
	Base                     QueryDeviceResp
	CompMask, ResponseLength uint32
	ODP                      [24]uint8
	TimestampMask, CoreClock uint64
	CapFlags                 uint64
	RSS                      [16]uint8
	MaxWQ, RawPacketCaps     uint32
	TagMatching              [24]uint8
	CQModeration             [8]uint8
	MaxDM                    uint64
	XRCODP, Reserved         uint32
}

// QueryPortCmd is the body of QueryPort.
type QueryPortCmd struct {
	Response uint64
	Port     uint8
	Reserved [7]uint8
}

// QueryPortResp answers it.
type QueryPortResp struct {
	CapFlags, MaxMessage, BadPKeys, BadQKeys, GIDs   uint32
	PKeys, LID, SMLID                                uint16
	State, MaxMTU, ActiveMTU, LMC, MaxVL             uint8
	SMSL, SubnetTimeout, InitType                    uint8
	Width, Speed, PhysState, LinkLayer, Flags, Spare uint8
}

// HandleCmd is the body of DeallocPD, DeregMR and DeallocMW.
type HandleCmd struct{ Handle uint32 }

// HandleResp is the answer to AllocPD, and to CreateCompChannel, whose handle is a
// descriptor.
type HandleResp struct{ Handle uint32 }

// RegMRCmd is the body of RegMR.
type RegMRCmd struct {
	Response, Start, Length, IOVA uint64
	PD, Access                    uint32
}

// RegMRResp answers it.
type RegMRResp struct{ Handle, LKey, RKey uint32 }

// ReregMRCmd is the body of ReregMR.
type ReregMRCmd struct {
	Response            uint64
	Handle, Flags       uint32
	Start, Length, IOVA uint64
	PD, Access          uint32
}

// ReregMRResp answers it.
type ReregMRResp struct{ LKey, RKey uint32 }

// AllocMWCmd is the body of AllocMW.
type AllocMWCmd struct {
	Response uint64
	PD       uint32
	Type     uint8
	Reserved [3]uint8
}

// AllocMWResp answers it.
type AllocMWResp struct{ Handle, RKey uint32 }

// CreateCQCmd is the body of CreateCQ.
type CreateCQCmd struct {
	Response, UserHandle uint64
	CQE, Vector          uint32
	Channel              int32
	Reserved             uint32
}

// CreateCQExCmd is the body of the extended CreateCQ.
type CreateCQExCmd struct {
	UserHandle                uint64
	CQE, Vector               uint32
	Channel                   int32
	CompMask, Flags, Reserved uint32
}

// CreateCQResp answers both; an Extension follows for the extended one, then a
// RingInfo.
type CreateCQResp struct{ Handle, CQE uint32 }

// Extension is the end of an answer to an extended command.
type Extension struct{ CompMask, ResponseLength uint32 }

// RingInfo is where a queue is to be mapped: struct mminfo.
type RingInfo struct {
	Offset    uint64
	Size, Pad uint32
}

// ResizeCQCmd is the body of ResizeCQ.
type ResizeCQCmd struct {
	Response    uint64
	Handle, CQE uint32
}

// ResizeCQResp answers it.
type ResizeCQResp struct {
	CQE, Reserved uint32
	Ring          RingInfo
}

// DestroyCmd is the body of DestroyCQ, DestroyQP and DestroySRQ, and of QuerySRQ.
type DestroyCmd struct {
	Response         uint64
	Handle, Reserved uint32
}

// DestroyCQResp says how many events of the queue the program has read.
type DestroyCQResp struct{ CompEvents, AsyncEvents uint32 }

// DestroyResp is that of other objects.
type DestroyResp struct{ AsyncEvents uint32 }

// ReqNotifyCQCmd is the body of ReqNotifyCQ.
type ReqNotifyCQCmd struct{ Handle, SolicitedOnly uint32 }

// Caps are the sizes of a queue pair.
type Caps struct{ SendWR, RecvWR, SendSGE, RecvSGE, Inline uint32 }

// CreateQPCmd is the body of CreateQP without its Response, and that of the
// extended CreateQP up to its CreateQPExtra.
type CreateQPCmd struct {
	UserHandle              uint64
	PD, SendCQ, RecvCQ, SRQ uint32
	Caps                    Caps
	SignalAll, Type, HasSRQ uint8
	Reserved                uint8
}

// CreateQPExtra is the rest of an extended CreateQP.
type CreateQPExtra struct{ CompMask, Flags, IndirectionTable, SourceQPN uint32 }

// CreateQPResp answers both; an Extension follows for the extended one, then two
// RingInfos: receive and send.
type CreateQPResp struct {
	Handle, QPN uint32
	Caps        Caps
	Reserved    uint32
}

// QPDest is an address, which iWARP has no use for: struct ib_uverbs_qp_dest.
type QPDest struct {
	GID                                                  [16]uint8
	FlowLabel                                            uint32
	LID, Reserved                                        uint16
	SGIDIndex, HopLimit, TrafficClass, SL, SrcPath, Rate uint8
	Global, Port                                         uint8
}

// QueryQPCmd is the body of QueryQP.
type QueryQPCmd struct {
	Response     uint64
	Handle, Mask uint32
}

// QueryQPResp answers it.
type QueryQPResp struct {
	Dest, AltDest                                       QPDest
	Caps                                                Caps
	QKey, RecvPSN, SendPSN, DestQPN, Access             uint32
	PKeyIndex, AltPKeyIndex                             uint16
	State, CurrentState, PathMTU, Migration, SQDraining uint8
	MaxReads, MaxDestReads, MinRNR, Port, Timeout       uint8
	Retry, RNRRetry, AltPort, AltTimeout, SignalAll     uint8
	Reserved                                            [5]uint8
}

// ModifyQPCmd is the body of ModifyQP.
type ModifyQPCmd struct {
	Dest, AltDest                                     QPDest
	Handle, Mask                                      uint32
	QKey, RecvPSN, SendPSN, DestQPN, Access           uint32
	PKeyIndex, AltPKeyIndex                           uint16
	State, CurrentState, PathMTU, Migration, SQDNotes uint8
	MaxReads, MaxDestReads, MinRNR, Port, Timeout     uint8
	Retry, RNRRetry, AltPort, AltTimeout              uint8
	Reserved                                          [2]uint8
}

// CreateSRQCmd is the body of CreateSRQ.
type CreateSRQCmd struct {
	Response, UserHandle     uint64
	PD, MaxWR, MaxSGE, Limit uint32
}

// CreateSRQResp answers it, with the provider's part.
type CreateSRQResp struct {
	Handle, MaxWR, MaxSGE, Number uint32
	Ring                          RingInfo
	ProviderNumber, Reserved      uint32
}

// ModifySRQCmd is the body of ModifySRQ, with the provider's part.
type ModifySRQCmd struct {
	Handle, Mask, MaxWR, Limit uint32
	RingInfoAt                 uint64 // address of a RingInfo, set when the queue is resized
}

// QuerySRQResp answers QuerySRQ.
type QuerySRQResp struct{ MaxWR, MaxSGE, Limit, Reserved uint32 }

// AsyncEvent is what the asynchronous descriptor carries.
type AsyncEvent struct {
	Element        uint64
	Type, Reserved uint32
}

// CompEvent is what a completion channel carries.
type CompEvent struct{ CQ uint64 }
