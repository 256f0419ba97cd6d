package rdmap

import (
	"errors"
	"slices"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/internal/fault"
	"github.com/go-iwarp/iwarp/protocol"
)

// Guard calls f, in which the receive owner calls Receive as often as it likes, and
// sees to it that memory which is not there (see [ddp.Receiver.Guard]) fails the
// stream and not the process. It returns that failure, or what f does. A Read whose
// sink is not there completes with it.
func (s *Stream) Guard(f func() error) error {
	gone, err := s.recv.Guard(f)
	if gone == nil {
		return err
	}
	s.receiveFailed(gone)
	return gone
}

// guardedFill is fill, where the memory of a Send, of a Write or of the source of a
// Read may not be there. Then the stream has failed, and the LLP's batch is as it was
// before that segment, so that the Terminate can follow.
func (s *Stream) guardedFill(llp ddp.LLP) (err error) {
	defer s.unguard(fault.Guard())
	return s.fill(llp)
}

func (s *Stream) unguard(was bool) {
	fault.Unguard(was)
	t := &s.send
	if !t.reading {
		return
	}
	t.reading = false
	gone := fault.Of(recover())
	if gone == nil {
		return
	}
	if t.kind == sendingResponse {
		r := &t.request.read
		perr := &protocol.Error{
			Code: protocol.RDMAPStreamCatastrophic, Section: "RFC 5040 section 7.2",
			Detail: "RDMA Read of STag " + r.SrcSTag.String() + ": copying its source", Err: gone,
		}
		s.Fail(s.midway(perr, uint64(r.Size)-(t.at-r.SrcTO)), true)
	} else {
		s.mu.Lock()
		s.blameSource(t.queued, gone, true)
		s.mu.Unlock()
	}
	t.idle() // what is left of the message cannot be sent, though it has begun
}

// blameSource fails the stream for the memory of a Send or Write, the request of that
// index. The stream is locked.
func (s *Stream) blameSource(index uint64, gone error, terminate bool) {
	err := &protocol.Error{
		Code: protocol.RDMAPLocalCatastrophic, Section: "RFC 5040 section 4.8",
		Detail: "the source of a " + s.queue.At(index).req.Op.String(), Err: gone,
	}
	s.fail(err, terminate)
	if s.err == err {
		s.culprit = index
	}
}

// lostSource looks whether an error of the LLP is that memory is not there, and fails
// the stream for the request whose memory that is. Part of an FPDU has gone, so that
// no Terminate can follow.
func (s *Stream) lostSource(err error) {
	var gone *fault.Error
	if !errors.As(err, &gone) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.queue.acked; i < s.queue.next; i++ {
		e := s.queue.At(i)
		if e.state == entryStarted && e.req.Op != OpRead && slices.ContainsFunc(e.req.SG, gone.Within) {
			s.blameSource(i, gone, false)
			return
		}
	}
}
