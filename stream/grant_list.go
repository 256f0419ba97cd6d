package stream

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// takeGrant takes a grant out of an entry of the list that the peer writes to, and reports whether there is one. A peer
// may write the next entry while this one is read, and even this one: so each half is read once, at a stroke, and the
// half with the length first, since that is written last.
func takeGrant(entry []byte) (s sge, ok bool) {
	words := (*[2]uint64)(unsafe.Pointer(unsafe.SliceData(entry[:sgeLen])))
	second := littleEndian(atomic.LoadUint64(&words[1]))
	if s.stag, s.length = uint32(second), uint32(second>>32); s.length == 0 {
		return s, false
	}
	s.addr = littleEndian(atomic.LoadUint64(&words[0]))
	atomic.StoreUint64(&words[1], 0)
	return s, true
}

// littleEndian is the number whose octets in memory are v's, the least significant one first.
func littleEndian(v uint64) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], v)
	return binary.LittleEndian.Uint64(b[:])
}
