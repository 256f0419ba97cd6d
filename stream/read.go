package stream

import (
	"errors"
	"io"
)

// Read copies octets into p, waiting for the first one if need be. It returns [io.EOF] when the peer has shut its
// sending down or disconnected and all that it sent has been read; [io.ErrUnexpectedEOF] if the iWARP connection ended
// without a word of that.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	n, err := c.read(p)
	return n, c.opError("read", err)
}

func (c *Conn) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, c.stopped(&c.readUntil)
	}
	some, err := c.unread()
	if err != nil {
		return 0, err
	}
	n := copy(p, some)
	if n == len(some) && n < len(p) { // the ring may go on at its start
		c.mu.Lock()
		more := min(c.in.unread-n, len(p)-n)
		c.mu.Unlock()
		if more > 0 {
			n += copy(p[n:], c.ring[:more])
		}
	}
	c.consume(n)
	return n, nil
}

// unread waits for octets and returns those that lie in one piece. They stay where they are until consume.
func (c *Conn) unread() ([]byte, error) {
	for {
		if err := c.stopped(&c.readUntil); err != nil {
			return nil, err
		}
		c.mu.Lock()
		in := &c.in
		if in.unread > 0 {
			p := c.ring[in.offset:min(in.offset+in.unread, len(c.ring))]
			c.mu.Unlock()
			return p, nil
		}
		over, err := in.shutdown || in.gone, c.err
		c.mu.Unlock()
		if over {
			if err == nil {
				err = io.EOF
			}
			return nil, err
		}
		if err := c.await(c.readable, &c.readUntil); err != nil {
			return nil, err
		}
	}
}

// consume frees n octets, and grants memory again when there is half a ring of it.
func (c *Conn) consume(n int) {
	c.mu.Lock()
	c.in.consume(n, len(c.ring))
	due := c.due()
	c.mu.Unlock()
	if due {
		c.grant()
	}
}

// consume frees n octets of a ring of so many.
func (in *inbound) consume(n, ring int) {
	in.offset = (in.offset + n) % ring
	in.unread -= n
	in.freed += n
}

// WriteTo writes what is received to w until the end of the stream, straight from where the peer has written it:
// [io.WriterTo].
func (c *Conn) WriteTo(w io.Writer) (total int64, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		p, err := c.unread()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, c.opError("read", err)
		}
		n, err := w.Write(p)
		if n < 0 || n > len(p) {
			n, err = 0, io.ErrShortWrite
		}
		c.consume(n)
		total += int64(n)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}
