// Package uabi has the commands that libibverbs and librdmacm write to the devices of
// Linux's RDMA subsystem, /dev/infiniband/uverbs0 and /dev/infiniband/rdma_cm, as plain
// structs: the layouts of linux/ib_user_verbs.h, rdma_user_cm.h and rdma_user_rxe.h,
// which the kernel keeps stable.
//
// A struct lies in memory as its C counterpart does, padding included, in the byte order
// of the machine; [Decode] and [Append] go between the two. What follows a struct in a
// command (a list, the provider's own part) is the caller's to find behind its size.
package uabi

import (
	"encoding/binary"
	"fmt"
)

// Order is the byte order of the fields.
var Order = binary.NativeEndian

// TooShortError says that a command ends within its struct.
type TooShortError struct {
	What      string
	Has, Want int // octets
}

// Error names the struct and both sizes.
func (e *TooShortError) Error() string {
	return fmt.Sprintf("uabi: %s has %d octets, want %d", e.What, e.Has, e.Want)
}

// Decode reads a T from the front of b. T is one of the structs of this package. The
// error is a *TooShortError.
func Decode[T any](b []byte) (T, error) {
	var v T
	if n := binary.Size(v); len(b) < n {
		return v, &TooShortError{What: fmt.Sprintf("%T", v), Has: len(b), Want: n}
	}
	_, err := binary.Decode(b, Order, &v)
	return v, err
}

// Size returns the octets of a T.
func Size[T any]() int {
	var v T
	return binary.Size(v)
}

// Append appends the octets of v, a struct of this package.
func Append(b []byte, v any) []byte {
	b, err := binary.Append(b, Order, v)
	if err != nil {
		panic(err) // not a struct of fixed size: a mistake in this module
	}
	return b
}

// Header is what every command starts with: struct ib_uverbs_cmd_hdr, and struct
// rdma_ucm_cmd_hdr, in which both lengths are octets.
//
//	 0               4       6       8
//	+---------------+-------+-------+
//	| command       | in    | out   |
//	+---------------+-------+-------+
type Header struct {
	Command uint32
	In, Out uint16 // uverbs: words of 4 octets, or 8 of an extended command; rdma_cm: octets behind the header
}

// HeaderLen is the octets of a Header.
const HeaderLen = 8

// Extended is the bit of Header.Command that says that an ExtendedHeader follows.
const Extended = 0x80000000

// ExtendedHeader is struct ib_uverbs_ex_cmd_hdr.
type ExtendedHeader struct {
	Response                uint64
	ProviderIn, ProviderOut uint16 // words of 8 octets, behind those of the Header
	Reserved                uint32
}
