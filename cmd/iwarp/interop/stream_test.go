package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/stream"
)

// TestSiwStream is package stream against the rsockets of librdmacm, in both roles.
func TestSiwStream(t *testing.T) {
	g := Up(t, "default")
	t.Run("rcopy to us", func(t *testing.T) { testRcopyToUs(t, g) })
	t.Run("us to rcopy", func(t *testing.T) { testUsToRcopy(t, g) })
	for _, options := range []string{
		"-T v -T b -S 100 -C 500", "-T v -T b -S 65536 -C 40 -I 3", "-T v -T a -S 1000000 -C 3", "-T v -S 1 -C 2000",
		"-T v -T b -S 300000 -C 10 -k 1",
	} {
		t.Run("rstream "+options+" to us", func(t *testing.T) {
			s := parseRstream(t, options)
			accepted(t, g, "rstream -s "+hostAddr+" -p %s "+options, func(c *stream.Conn) error { return s.serve(c) })
		})
		if parseRstream(t, options).size > 65536 {
			continue // as a server it may end before its last octets have gone (README.md)
		}
		t.Run("us to rstream "+options, func(t *testing.T) {
			s := parseRstream(t, options)
			job, c := dialed(t, g, "rstream -p %s "+options)
			if err := s.call(c); err != nil {
				t.Errorf("our side: %v; theirs printed:\n%s", err, job.Output())
			}
			closeStream(t, c)
			if out := job.MustEnd(t); strings.Contains(out, "fail") {
				t.Error(out)
			}
		})
	}
}

// streamConfig leaves the CRC off: siw finds mismatches in long transfers that are none (README.md).
func streamConfig(t *testing.T) *stream.Config {
	return &stream.Config{Conn: setting{noCRC: true}.config(t)}
}

// accepted starts a client in the guest and serves it.
func accepted(t *testing.T, g *Guest, command string, serve func(*stream.Conn) error) {
	t.Helper()
	ln, err := stream.Listen("tcp", "127.0.0.1:0", streamConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(ln)
	job := g.Start(t, fmt.Sprintf(command, port(ln.Addr().String())))
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
	defer cancel()
	c, err := ln.AcceptStream(ctx)
	if err != nil {
		t.Fatalf("accepting: %v; theirs printed:\n%s", err, job.Output())
	}
	stop := context.AfterFunc(ctx, c.IWARP().Abort)
	defer stop()
	if err := serve(c); err != nil {
		t.Errorf("our side: %v; theirs printed:\n%s", err, job.Output())
	}
	closeStream(t, c)
	if out := job.MustEnd(t); strings.Contains(out, "fail") {
		t.Error(out)
	}
}

// dialed starts a server in the guest and connects to it.
func dialed(t *testing.T, g *Guest, command string) (*Job, *stream.Conn) {
	t.Helper()
	number, addr := g.Port(t)
	job := g.Serve(t, number, fmt.Sprintf(command, number))
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTime)
	t.Cleanup(cancel)
	c, err := stream.Dial(ctx, "tcp", addr, streamConfig(t))
	if err != nil {
		t.Fatalf("connecting: %v; theirs printed:\n%s", err, job.Output())
	}
	context.AfterFunc(ctx, c.IWARP().Abort)
	return job, c
}

// closeStream closes a stream, whose iWARP connection must end gracefully.
func closeStream(t *testing.T, c *stream.Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.IWARP().Err(); err != nil {
		t.Errorf("the iWARP connection: %v", err)
	}
}

// rstream is what librdmacm's program of that name does with its option "verify": octets that count up, in both
// directions.
type rstream struct {
	size, count, turns int
	sent, received     byte
}

func parseRstream(t *testing.T, options string) *rstream {
	s := &rstream{turns: 1}
	f := strings.Fields(options)
	for i := 0; i+1 < len(f); i += 2 {
		for name, v := range map[string]*int{"-S": &s.size, "-C": &s.count, "-I": &s.turns} {
			if f[i] == name {
				if _, err := fmt.Sscan(f[i+1], v); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return s
}

func (s *rstream) send(c *stream.Conn, n int) error {
	p := make([]byte, n)
	for i := range p {
		p[i] = s.sent
		s.sent++
	}
	_, err := c.Write(p)
	return err
}

func (s *rstream) recv(c *stream.Conn, n int) error {
	p := make([]byte, n)
	if m, err := io.ReadFull(c, p); err != nil {
		return fmt.Errorf("after %d octets of %d: %w", m, n, err)
	}
	for i := range p {
		if p[i] != s.received {
			return fmt.Errorf("octet %d of %d is %d, want %d", i, n, p[i], s.received)
		}
		s.received++
	}
	return nil
}

func (s *rstream) call(c *stream.Conn) error { return s.run(c, s.send, s.recv) }

// serve waits for the client's end as well: with option "a" that takes a disconnect behind the last octets for an
// error.
func (s *rstream) serve(c *stream.Conn) error {
	if err := s.run(c, s.recv, s.send); err != nil {
		return err
	}
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("after the end: %d octets, %w", n, err)
	}
	return nil
}

func (s *rstream) run(c *stream.Conn, first, second func(*stream.Conn, int) error) error {
	if err := errors.Join(first(c, 16), second(c, 16)); err != nil {
		return err
	}
	for turn := range s.turns {
		for _, f := range []func(*stream.Conn, int) error{first, second} {
			for i := range s.count {
				if err := f(c, s.size); err != nil {
					return fmt.Errorf("turn %d, transfer %d: %w", turn, i, err)
				}
			}
		}
	}
	return nil
}

// The messages of rcopy: a header of 16 octets, then a path or the file's length.
const (
	rcopyOpen  = 1
	rcopyClose = 2
	rcopyWrite = 3
	rcopyReply = 0x80
	rcopyHdr   = 16
)

func rcopyMessage(command uint8, data uint32, body []byte) []byte {
	b := []byte{0, command}
	b = binary.LittleEndian.AppendUint16(b, uint16(rcopyHdr+len(body)))
	b = binary.LittleEndian.AppendUint32(b, data)
	b = binary.LittleEndian.AppendUint64(b, 0)
	return append(b, body...)
}

func readRcopy(c io.Reader) (command uint8, data uint32, body []byte, err error) {
	h := make([]byte, rcopyHdr)
	if _, err = io.ReadFull(c, h); err != nil {
		return
	}
	body = make([]byte, int(binary.LittleEndian.Uint16(h[2:]))-rcopyHdr)
	_, err = io.ReadFull(c, body)
	return h[1], binary.LittleEndian.Uint32(h[4:]), body, err
}

const rcopySize = 5<<20 + 12345

func testRcopyToUs(t *testing.T, g *Guest) {
	g.Exec(t, fmt.Sprintf("head -c %d /dev/urandom > /tmp/from", rcopySize))
	want := strings.Fields(g.Exec(t, "cksum /tmp/from"))
	var file bytes.Buffer
	accepted(t, g, "rcopy /tmp/from "+hostAddr+":/tmp/to -p %s", func(c *stream.Conn) error {
		for {
			command, _, body, err := readRcopy(c)
			if err != nil {
				return err
			}
			if command == rcopyWrite {
				if _, err := io.CopyN(&file, c, int64(binary.LittleEndian.Uint64(body))); err != nil {
					return err
				}
			}
			if _, err := c.Write(rcopyMessage(command|rcopyReply, 0, nil)); err != nil {
				return err
			}
			if command == rcopyClose {
				_, err := c.Read(make([]byte, 1))
				if err != io.EOF {
					return fmt.Errorf("after the end: %w", err)
				}
				return nil
			}
		}
	})
	if got := fmt.Sprint(cksum(file.Bytes())); got != want[0] {
		t.Errorf("%d octets with checksum %s, want %v", file.Len(), got, want)
	}
}

func testUsToRcopy(t *testing.T, g *Guest) {
	file := make([]byte, rcopySize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(file)
	job, c := dialed(t, g, "rcopy -p %s")
	send := func(command uint8, data uint32, body, more []byte) {
		t.Helper()
		if _, err := c.Write(append(rcopyMessage(command, data, body), more...)); err != nil {
			t.Fatalf("our side: %v; theirs printed:\n%s", err, job.Output())
		}
		got, status, _, err := readRcopy(c)
		if err != nil || got != command|rcopyReply || status != 0 {
			t.Fatalf("reply %#x, status %d, %v; theirs printed:\n%s", got, status, err, job.Output())
		}
	}
	send(rcopyOpen, 0o600, []byte("/tmp/copy\x00\x00\x00\x00\x00\x00\x00"), nil)
	send(rcopyWrite, 0, binary.LittleEndian.AppendUint64(nil, rcopySize), file)
	send(rcopyClose, 0, nil, nil)
	closeStream(t, c)
	if got := strings.Fields(g.Exec(t, "cksum /tmp/copy")); got[0] != fmt.Sprint(cksum(file)) {
		t.Errorf("the copy has checksum %s, want %d", got[0], cksum(file))
	}
}

// cksum is POSIX's.
func cksum(p []byte) uint32 {
	const poly = 0x04c11db7
	var table [256]uint32
	for i := range table {
		c := uint32(i) << 24
		for range 8 {
			if c&(1<<31) != 0 {
				c = c<<1 ^ poly
			} else {
				c <<= 1
			}
		}
		table[i] = c
	}
	var crc uint32
	for _, b := range p {
		crc = crc<<8 ^ table[byte(crc>>24)^b]
	}
	for n := len(p); n > 0; n >>= 8 {
		crc = crc<<8 ^ table[byte(crc>>24)^byte(n)]
	}
	return ^crc
}
