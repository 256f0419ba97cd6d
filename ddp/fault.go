package ddp

import (
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/protocol"
)

// Guard calls f, which calls Segment as often as it likes, and sees to it that
// memory which is not there costs this stream and not the process. Buffers and
// regions may be mapped files, and these may become shorter; a program may unmap
// what it has lent. Without Guard that is a fault, which ends the process.
//
// A fault while a payload is being placed ends f, with what is deferred on the way,
// and is the receiver's error from then on: 1/0/00, local catastrophic, since the
// peer has done nothing wrong. Guard returns it as gone; else it returns what f
// does. What was placed before stays. A fault anywhere else, and every other panic,
// goes on as if there were no Guard.
func (r *Receiver) Guard(f func() error) (gone *protocol.Error, err error) {
	defer r.unguard(fault.Guard(), &gone)
	return nil, f()
}

func (r *Receiver) unguard(was bool, gone **protocol.Error) {
	fault.Unguard(was)
	if r.placing == 0 {
		return
	}
	if e := fault.Of(recover()); e != nil {
		*gone = r.failed(memoryGone(&r.header, e), &r.header, r.placing)
	}
}

func memoryGone(h *Header, cause error) *protocol.Error {
	where := "the untagged buffer"
	if h.Tagged {
		where = "the tagged buffer of STag " + h.STag.String()
	}
	e := fail(protocol.DDPLocalCatastrophic, "RFC 5041 section 7.2", "placing a segment in %s", where)
	e.Err = cause
	return e
}

// unguard ends an access to the word of an atomic.
func (r *Region) unguard(was bool, err **protocol.Error) {
	fault.Unguard(was)
	if e := fault.Of(recover()); e != nil {
		*err = fail(protocol.RDMAPStreamCatastrophic, "RFC 5040 section 4.8", "STag %v: an atomic on it", r.STag())
		(*err).Err = e
	}
}
