package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/go-iwarp/iwarp"
)

const (
	sendDepth = 128
	// data messages that have not completed; two requests each, and the rest is for grants and states
	maxPosted   = 48
	maxTogether = 8         // data messages that are posted together, for one call of TCP
	maxChunk    = 512 << 10 // octets of a data message
	maxGather   = 16        // elements of a request
	maxInlined  = 512       // so few octets are copied when posted
	bounceSize  = 64 << 10
)

// writer is what a Write has; Conn.writing guards it.
type writer struct {
	posted, done uint64 // data messages
	failed       bool   // one has completed in error
	bounced      uint64 // the latest of those sent from bounce
	parts        [maxTogether]part
	wrs          [2 * maxTogether]iwarp.SendWR
	comps        [16]iwarp.Completion
	one          [1][]byte
	bounce       []byte
}

// part is what a data message has.
type part struct {
	sg    [maxGather][]byte
	msg   [msgLen]byte
	msgSG [1][]byte
}

func (w *writer) init() {
	for i := range w.parts {
		w.parts[i].msgSG[0] = w.parts[i].msg[:]
	}
}

// Write sends p and waits until the network has taken it. It blocks while the peer grants no room. Without a deadline
// p is sent from where it is, with one it is copied first.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.writer.one[0] = p
	n, err := c.write(c.writer.one[:])
	c.writer.one[0] = nil
	return int(n), c.opError("write", err)
}

// WriteBuffers sends the buffers in order, as few messages as possible, and takes from b what has been sent:
// [net.Buffers.WriteTo] calls Write for each buffer in place.
func (c *Conn) WriteBuffers(b *net.Buffers) (int64, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.write(*b)
	left := n
	for len(*b) > 0 && left >= int64(len((*b)[0])) {
		left -= int64(len((*b)[0]))
		(*b)[0] = nil
		*b = (*b)[1:]
	}
	if left > 0 {
		(*b)[0] = (*b)[0][left:]
	}
	return n, c.opError("write", err)
}

// ReadFrom sends what it reads from r until r ends: [io.ReaderFrom].
func (c *Conn) ReadFrom(r io.Reader) (total int64, err error) {
	buf := make([]byte, bounceSize)
	for {
		n, rerr := r.Read(buf)
		if n > 0 {
			m, err := c.Write(buf[:n])
			total += int64(m)
			if err != nil {
				return total, err
			}
		}
		if errors.Is(rerr, io.EOF) {
			return total, nil
		}
		if rerr != nil {
			return total, rerr
		}
	}
}

// cursor goes through buffers.
type cursor struct {
	bufs   [][]byte
	offset int // in the first of them
}

// take appends up to n octets to sg, as long as it has room, and returns their number.
func (cu *cursor) take(sg [][]byte, n int) ([][]byte, int) {
	taken := 0
	for len(cu.bufs) > 0 && taken < n && len(sg) < cap(sg) {
		p := cu.bufs[0][cu.offset:]
		if len(p) > n-taken {
			p = p[:n-taken]
		}
		if taken += len(p); len(p) > 0 {
			sg = append(sg, p)
		}
		cu.offset += len(p)
		cu.skipEmpty()
	}
	return sg, taken
}

func (cu *cursor) skipEmpty() {
	for len(cu.bufs) > 0 && cu.offset == len(cu.bufs[0]) {
		cu.bufs, cu.offset = cu.bufs[1:], 0
	}
}

// write sends the buffers. The caller has c.writing.
func (c *Conn) write(bufs [][]byte) (total int64, err error) {
	cu := cursor{bufs: bufs}
	cu.skipEmpty()
	if len(cu.bufs) == 0 {
		return 0, c.mayWrite()
	}
	w := &c.writer
	copied := c.sendUntil.pending()
	var lent uint64 // the last message with memory of the caller's
	for len(cu.bufs) > 0 && err == nil {
		if err = c.room(copied); err != nil {
			break
		}
		var n int
		var lends bool
		n, lends, err = c.send(&cu, copied)
		total += int64(n)
		if lends {
			lent = w.posted
		}
	}
	if lent > 0 {
		_ = c.sent(lent, false)
	}
	if err == nil && w.failed {
		err = c.writeError()
	}
	return total, err
}

// mayWrite is the error of a Write that need not wait.
func (c *Conn) mayWrite() error {
	if err := c.stopped(&c.sendUntil); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.in.gone || c.out.shutdown:
		return syscall.EPIPE
	}
	return nil
}

// writeError is why requests fail.
func (c *Conn) writeError() error {
	if err := c.mayWrite(); err != nil {
		return err
	}
	if err := c.conn.Err(); err != nil {
		return err
	}
	return syscall.EPIPE // the goroutine that receives is about to learn of it
}

// room waits until a data message may be sent, and the copy of the one before is not in use any more.
func (c *Conn) room(copied bool) error {
	w := &c.writer
	for {
		if err := c.mayWrite(); err != nil {
			return err
		}
		c.mu.Lock()
		some := c.out.room()
		c.mu.Unlock()
		if some {
			break
		}
		if err := c.await(c.writable, &c.sendUntil); err != nil {
			return err
		}
	}
	if w.posted-w.done >= maxPosted {
		if err := c.sent(w.posted-maxPosted/2, copied); err != nil {
			return err
		}
	}
	if copied {
		return c.sent(w.bounced, true)
	}
	return nil
}

// send sends data messages, as many as there is room for and can go together, and returns their octets. There is room
// for one. lent tells that they have memory of the caller's.
func (c *Conn) send(cu *cursor, copied bool) (total int, lent bool, err error) {
	w, out := &c.writer, &c.out
	k := 0
	c.mu.Lock()
	for k == 0 || !copied && k < maxTogether && len(cu.bufs) > 0 && out.room() && w.posted-w.done < maxPosted {
		p, wr := &w.parts[k], w.wrs[2*k:]
		limit := maxChunk
		if copied {
			limit = bounceSize
		}
		sg, n := cu.take(p.sg[:0], int(min(out.grants[0].length, uint32(limit))))
		w.posted++
		inline := n <= maxInlined
		if !inline && copied {
			w.copy(sg)
			sg, w.bounced = append(sg[:0], w.bounce[:n]), w.posted
		}
		binary.LittleEndian.PutUint32(p.msg[:], message(kindData, uint32(n)))
		wr[0] = iwarp.SendWR{
			Op: iwarp.OpWrite, SG: sg, Remote: remote(&out.grants[0], 0), Inline: inline, Unsignaled: true,
		}
		wr[1] = iwarp.SendWR{Op: iwarp.OpSend, SG: p.msgSG[:], Inline: true, ID: w.posted}
		out.use(n)
		total, lent = total+n, lent || !inline && !copied
		k++
	}
	c.mu.Unlock()
	err = c.qp.PostSend(w.wrs[:2*k]...)
	for i := range k {
		clear(w.wrs[2*i].SG)
	}
	if err != nil {
		// Some of them may be posted, and nobody will hear of their end.
		_ = c.conn.Drain(context.Background())
		w.failed, w.done = true, w.posted
		return 0, false, c.writeError()
	}
	return total, lent, nil
}

// room reports whether a data message may be sent.
func (out *outbound) room() bool { return out.count > 0 && out.limit-out.seq > out.reserve }

// ready is how many octets can be written without waiting for the peer, in pieces of up to bounceSize or one more.
func (out *outbound) ready() (octets uint64) {
	if !out.room() {
		return 0
	}
	// A data message has octets of one grant, and what is copied may take one message more.
	spare := int(out.limit - out.seq - out.reserve - 1)
	for _, g := range out.grants[:min(out.count, spare)] {
		octets += uint64(g.length)
	}
	return octets
}

// use notes a data message of n octets, which the first grant has.
func (out *outbound) use(n int) {
	out.seq++
	out.grants[0].addr += uint64(n)
	if out.grants[0].length -= uint32(n); out.grants[0].length == 0 {
		out.count--
		copy(out.grants[:], out.grants[1:])
	}
}

// copy copies the elements of a gather list to memory that outlives the call.
func (w *writer) copy(sg [][]byte) {
	if w.bounce == nil {
		w.bounce = make([]byte, bounceSize)
	}
	n := 0
	for _, p := range sg {
		n += copy(w.bounce[n:], p)
	}
}

// sent waits until the network has taken a data message. With interruptible, the deadline and Close end the wait.
func (c *Conn) sent(seq uint64, interruptible bool) error {
	w, cq := &c.writer, c.qp.SendCQ()
	var until, closed <-chan struct{}
	for w.done < seq {
		if c.reap() > 0 {
			continue
		}
		if cq.Arm(false); c.reap() > 0 {
			continue
		}
		if interruptible {
			until, closed = c.sendUntil.wait(), c.closed
		}
		select {
		case <-cq.Events():
			continue
		case <-until:
		case <-closed:
		}
		if err := c.stopped(&c.sendUntil); err != nil {
			return err
		}
	}
	return nil
}

// reap takes completions of data messages and returns their number.
func (c *Conn) reap() int {
	w := &c.writer
	n := c.qp.SendCQ().Poll(w.comps[:])
	for i := range w.comps[:n] {
		comp := &w.comps[i]
		w.done = max(w.done, comp.ID) // 0 is a request without a completion of its own that has failed
		w.failed = w.failed || comp.Err != nil
	}
	return n
}
