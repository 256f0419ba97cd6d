package iwarptest

import (
	"iter"
	"net"
	"slices"
	"sync"
)

// EverySplit returns every way to cut b into so many pieces, none of them empty, in
// order. The pieces are slices of b; the slice of pieces is used again for the
// next way. There are (len(b)-1 over pieces-1) ways, so 2 or 3 pieces do for all
// but short strings.
func EverySplit(b []byte, pieces int) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		if pieces < 1 || pieces > len(b) {
			return
		}
		out := make([][]byte, 0, pieces)
		var cut func(rest []byte, left int) bool
		cut = func(rest []byte, left int) bool {
			if left == 1 {
				return yield(append(out, rest))
			}
			for i := 1; i <= len(rest)-(left-1); i++ {
				out = append(out, rest[:i])
				ok := cut(rest[i:], left-1)
				out = out[:len(out)-1]
				if !ok {
					return false
				}
			}
			return true
		}
		cut(b, pieces)
	}
}

// EverySize cuts b into pieces of 1 octet, then of 2, and so on up to len(b); the
// last piece of each way may be shorter. It gives the size with the pieces.
func EverySize(b []byte) iter.Seq2[int, [][]byte] {
	return func(yield func(int, [][]byte) bool) {
		for size := 1; size <= len(b); size++ {
			var pieces [][]byte
			for rest := b; len(rest) > 0; {
				n := min(size, len(rest))
				pieces = append(pieces, rest[:n])
				rest = rest[n:]
			}
			if !yield(size, pieces) {
				return
			}
		}
	}
}

// Prefixes returns every truncation of b: b without its last octet last, the empty
// one first. A prefix has no room for the octets behind it, so that reading past
// its end is seen.
func Prefixes(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range b {
			if !yield(b[:i:i]) {
				return
			}
		}
	}
}

// Split wraps nc so that no Read gives octets of two pieces, when the stream is
// cut into pieces of the given sizes in octets, over and over. Sizes below 1 are
// taken as 1; without sizes every Read gives one octet.
func Split(nc net.Conn, sizes ...int) net.Conn {
	if len(sizes) == 0 {
		sizes = []int{1}
	}
	return &splitConn{Conn: nc, sizes: slices.Clone(sizes), left: max(sizes[0], 1)}
}

type splitConn struct {
	net.Conn
	sizes []int

	mu   sync.Mutex
	next int // index in sizes
	left int // octets left of the piece
}

func (c *splitConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if len(b) > c.left {
		b = b[:c.left]
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left -= n; c.left <= 0 {
		c.next = (c.next + 1) % len(c.sizes)
		c.left = max(c.sizes[c.next], 1)
	}
	return n, err
}

// CloseWrite closes the write side of the wrapped connection.
func (c *splitConn) CloseWrite() error { return closeWrite(c.Conn) }

// SetLinger sets that of the wrapped connection.
func (c *splitConn) SetLinger(sec int) error { return setLinger(c.Conn, sec) }
