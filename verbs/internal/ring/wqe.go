package ring

import "github.com/go-iwarp/iwarp/verbs/internal/uabi"

// Send is an element of a send queue: struct rxe_send_wqe.
//
//	  0 wr_id                     24 remote address (of a window: address)
//	 12 opcode                    32 rkey, of an atomic compare-add (length)
//	 16 flags                     40 swap (mr_lkey, mw_rkey)
//	 20 immediate or rkey         48 rkey of an atomic (rkey, access)
//	184 octets inline             196 number of SGEs
//	208 SGEs or the octets
type Send []byte

// The octets of an element without its SGEs.
const (
	SendLen = 208
	RecvLen = 40
	SGELen  = 16
)

// Opcodes of sends: enum ib_uverbs_wr_opcode.
const (
	OpWrite      = 0
	OpWriteImm   = 1
	OpSend       = 2
	OpSendImm    = 3
	OpRead       = 4
	OpCmpSwap    = 5
	OpFetchAdd   = 6
	OpLocalInv   = 7
	OpBindMW     = 8
	OpSendInval  = 9
	opcodesKnown = 10
)

// Flags of sends: enum ibv_send_flags.
const (
	FlagFence     = 1 << 0
	FlagSignaled  = 1 << 1
	FlagSolicited = 1 << 2
	FlagInline    = 1 << 3
)

// ID is the program's.
func (w Send) ID() uint64 { return uabi.Order.Uint64(w) }

// Opcode is the operation.
func (w Send) Opcode() uint32 { return uabi.Order.Uint32(w[12:]) }

// Flags are the flags.
func (w Send) Flags() uint32 { return uabi.Order.Uint32(w[16:]) }

// Immediate is four octets as the program has put them there.
func (w Send) Immediate() [4]byte { return [4]byte(w[20:24]) }

// Invalidate is the key to invalidate.
func (w Send) Invalidate() uint32 { return uabi.Order.Uint32(w[20:]) }

// RemoteAddr is the peer's address.
func (w Send) RemoteAddr() uint64 { return uabi.Order.Uint64(w[24:]) }

// RKey is the peer's key of a Write or Read.
func (w Send) RKey() uint32 { return uabi.Order.Uint32(w[32:]) }

// CompareAdd is what an atomic compares with, or adds.
func (w Send) CompareAdd() uint64 { return uabi.Order.Uint64(w[32:]) }

// Swap is the value to put in.
func (w Send) Swap() uint64 { return uabi.Order.Uint64(w[40:]) }

// AtomicRKey is the peer's key of an atomic.
func (w Send) AtomicRKey() uint32 { return uabi.Order.Uint32(w[48:]) }

// Inline returns the octets within the element; false if it does not have as many as it
// says.
func (w Send) Inline() ([]byte, bool) {
	n := uabi.Order.Uint32(w[184:])
	if uint64(n) > uint64(len(w)-SendLen) {
		return nil, false
	}
	return w[SendLen : SendLen+n], true
}

// SGEs is the list; false if the element has no room for so many.
func (w Send) SGEs() (List, bool) { return list(w, SendLen, uabi.Order.Uint32(w[196:])) }

// Recv is an element of a receive queue: struct rxe_recv_wqe.
type Recv []byte

// ID is the program's.
func (w Recv) ID() uint64 { return uabi.Order.Uint64(w) }

// SGEs is the list; false if the element has no room for so many.
func (w Recv) SGEs() (List, bool) { return list(w, RecvLen, uabi.Order.Uint32(w[28:])) }

// List is a list of SGEs: struct rxe_sge.
type List []byte

func list(w []byte, at int, n uint32) (List, bool) {
	if uint64(n)*SGELen > uint64(len(w)-at) {
		return nil, false
	}
	return List(w[at : at+int(n)*SGELen]), true
}

// Len is the number of SGEs.
func (l List) Len() int { return len(l) / SGELen }

// At returns SGE i: address, octets and key.
func (l List) At(i int) (addr uint64, length, lkey uint32) {
	e := l[i*SGELen : (i+1)*SGELen]
	return uabi.Order.Uint64(e), uabi.Order.Uint32(e[8:]), uabi.Order.Uint32(e[12:])
}

// Completion is an element of a completion queue: struct ib_uverbs_wc.
type Completion struct {
	ID                             uint64
	Status, Opcode, Vendor, Length uint32
	Extra                          [4]byte // the immediate, or the key that was invalidated
	QPN, SourceQPN, Flags          uint32
}

// CompletionLen is the octets of the element.
const CompletionLen = 64

// Put writes the completion into an element.
func (c *Completion) Put(b []byte) {
	o := uabi.Order
	o.PutUint64(b, c.ID)
	o.PutUint32(b[8:], c.Status)
	o.PutUint32(b[12:], c.Opcode)
	o.PutUint32(b[16:], c.Vendor)
	o.PutUint32(b[20:], c.Length)
	copy(b[24:28], c.Extra[:])
	o.PutUint32(b[28:], c.QPN)
	o.PutUint32(b[32:], c.SourceQPN)
	o.PutUint32(b[36:], c.Flags)
	o.PutUint64(b[40:], 0)
	b[46] = 1 // port_num
}

// ParseCompletion reads an element, as the program does.
func ParseCompletion(b []byte) Completion {
	o := uabi.Order
	return Completion{
		ID: o.Uint64(
			b,
		), Status: o.Uint32(b[8:]), Opcode: o.Uint32(b[12:]), Vendor: o.Uint32(b[16:]), Length: o.Uint32(b[20:]),
		Extra: [4]byte(b[24:28]), QPN: o.Uint32(b[28:]), SourceQPN: o.Uint32(b[32:]), Flags: o.Uint32(b[36:]),
	}
}

// Status of completions: enum ibv_wc_status.
const (
	StatusSuccess       = 0
	StatusLocalLength   = 1
	StatusLocalQPOp     = 2
	StatusLocalProt     = 4
	StatusFlush         = 5
	StatusMWBind        = 6
	StatusRemoteInvalid = 9
	StatusRemoteAccess  = 10
	StatusRemoteOp      = 11
	StatusGeneral       = 21
)

// Opcodes of completions: enum ibv_wc_opcode.
const (
	WCSend     = 0
	WCWrite    = 1
	WCRead     = 2
	WCCmpSwap  = 3
	WCFetchAdd = 4
	WCBindMW   = 5
	WCLocalInv = 6
	WCRecv     = 128
	WCRecvImm  = 129
)

// Flags of completions: enum ibv_wc_flags.
const (
	WCWithImm = 1 << 1
	WCWithInv = 1 << 3
)

// WCOpcode is the opcode of the completion of a send.
func WCOpcode(op uint32) uint32 {
	if op >= opcodesKnown {
		return WCSend
	}
	return [...]uint32{
		OpWrite: WCWrite, OpWriteImm: WCWrite, OpSend: WCSend, OpSendImm: WCSend, OpRead: WCRead, OpCmpSwap: WCCmpSwap,
		OpFetchAdd: WCFetchAdd, OpLocalInv: WCLocalInv, OpBindMW: WCBindMW, OpSendInval: WCSend,
	}[op]
}
