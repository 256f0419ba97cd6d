// Package wire is the protocol of "iwarp cp" and "iwarp serve": the messages, which go
// as Sends, and the proofs that both ends know the same token. Octets of files go by
// RDMA Read and Write, which the client issues.
//
// The client sends a Request and the server answers it with a Reply, one at a time on a
// connection, so that each end needs one receive buffer only. Both are CBOR
// (https://www.rfc-editor.org/rfc/rfc8949), with small numbers as keys.
//
// A connection begins with Hello and Prove; docs/copy.md shows a whole exchange.
package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/zeebo/xxh3"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/tree"
)

// Version of the protocol; another one is refused.
const Version = 1

const (
	// MaxMessage is the most octets of a message.
	MaxMessage = 64 << 10
	// Chunk is the most octets of a file that a request is about, and what a
	// connection's buffers have.
	Chunk = 4 << 20
	// Small is the most octets of a file that goes in a bundle with others.
	Small = 1 << 20
	// MaxEntries is the most entries of a message.
	MaxEntries = 512
	// MaxPath is the most octets of a path or of what a symbolic link holds.
	MaxPath = 4096
	// Room is the most octets that the paths of a message should have together.
	Room = MaxMessage / 2
)

// Op is what a request asks for.
type Op uint8

// The requests. "Region" is the buffer of Chunk octets that the Reply to Prove tells of.
const (
	Hello   Op = iota + 1 // Version, Nonce -> Version, Nonce, Proof
	Prove                 // Proof, Session or none -> Session, Region, ReadOnly
	List                  // Entries[0].Path, Recursive; again without Entries -> Entries, More
	Stat                  // Entries (Path) -> Entries
	Get                   // Entries (Path): small files, one behind the other in the region -> Entries, Region, Sum
	Put                   // Entries, Sum: the octets of its files are in the region -> Entries with Err
	Open                  // Entries[0].Path -> Handle, Entries
	Load                  // Handle, Off, Len -> Region, Spans, Sum of their octets
	Check                 // Handle of Open -> nothing, or that the file changed
	Create                // Entries[0] -> Handle, Resumed
	Probe                 // Handle, Off, Len, Spans, Sum -> Have: the file has those octets already
	Store                 // Handle, Off, Len, Spans, Sum: their octets are in the region, at the same distances
	Commit                // Handle, Entries[0]: it gets its name
	Release               // Handle: of Open, or of Create without Commit
	SetAttr               // Entries -> Entries with Err
)

var opNames = [...]string{
	Hello:   "hello",
	Prove:   "prove",
	List:    "list",
	Stat:    "stat",
	Get:     "get",
	Put:     "put",
	Open:    "open",
	Load:    "load",
	Check:   "check",
	Create:  "create",
	Probe:   "probe",
	Store:   "store",
	Commit:  "commit",
	Release: "release",
	SetAttr: "setattr",
}

// String returns the name for people.
func (o Op) String() string {
	if int(o) < len(opNames) && opNames[o] != "" {
		return opNames[o]
	}
	return fmt.Sprintf("request %d", uint8(o))
}

// Request is what the client sends.
type Request struct {
	Op        Op          `cbor:"1,keyasint"`
	Version   int         `cbor:"2,keyasint,omitempty"`
	Nonce     []byte      `cbor:"3,keyasint,omitempty"`
	Proof     []byte      `cbor:"4,keyasint,omitempty"`
	Session   []byte      `cbor:"5,keyasint,omitempty"`
	Entries   []Entry     `cbor:"6,keyasint,omitempty"`
	Recursive bool        `cbor:"7,keyasint,omitempty"`
	Handle    uint64      `cbor:"8,keyasint,omitempty"`
	Off       int64       `cbor:"9,keyasint,omitempty"`
	Len       int64       `cbor:"10,keyasint,omitempty"`
	Spans     []tree.Span `cbor:"11,keyasint,omitempty"`
	Sum       Sum         `cbor:"12,keyasint"`
}

// Reply is what the server sends.
type Reply struct {
	Err      string      `cbor:"1,keyasint,omitempty"` // why it was not done
	Version  int         `cbor:"2,keyasint,omitempty"`
	Nonce    []byte      `cbor:"3,keyasint,omitempty"`
	Proof    []byte      `cbor:"4,keyasint,omitempty"`
	Session  []byte      `cbor:"5,keyasint,omitempty"`
	Entries  []Entry     `cbor:"6,keyasint,omitempty"`
	More     bool        `cbor:"7,keyasint,omitempty"`
	Handle   uint64      `cbor:"8,keyasint,omitempty"`
	Region   []byte      `cbor:"9,keyasint,omitempty"` // an iwarp.RemoteBuffer
	Spans    []tree.Span `cbor:"10,keyasint,omitempty"`
	Sum      Sum         `cbor:"11,keyasint"`
	Resumed  bool        `cbor:"12,keyasint,omitempty"`
	Have     bool        `cbor:"13,keyasint,omitempty"`
	ReadOnly bool        `cbor:"14,keyasint,omitempty"`
}

// Entry is a tree.Entry on the wire. Names are octets: not every system has UTF-8.
type Entry struct {
	Path  []byte    `cbor:"1,keyasint"`
	Kind  tree.Kind `cbor:"2,keyasint,omitempty"`
	Perm  uint16    `cbor:"3,keyasint,omitempty"`
	Size  int64     `cbor:"4,keyasint,omitempty"`
	MTime int64     `cbor:"5,keyasint,omitempty"` // seconds since 1970
	Nanos int32     `cbor:"6,keyasint,omitempty"` // and billionths
	Link  []byte    `cbor:"7,keyasint,omitempty"`
	Same  []byte    `cbor:"8,keyasint,omitempty"`
	Err   string    `cbor:"9,keyasint,omitempty"`
}

// Of puts an entry on the wire.
func Of(e tree.Entry) Entry {
	return Entry{
		Path: []byte(e.Path), Kind: e.Kind, Perm: uint16(e.Perm.Perm()), Size: e.Size,
		MTime: e.MTime.Unix(), Nanos: int32(e.MTime.Nanosecond()), Link: []byte(e.Link), Same: []byte(e.Same),
	}
}

// Failed is an entry that could not be handled.
func Failed(p string, err error) Entry { return Entry{Path: []byte(p), Err: ErrText(err)} }

// maxErr bounds what is told of an error.
const maxErr = 512

// ErrText is the text of an error as a message has it.
func ErrText(err error) string {
	s := err.Error()
	return s[:min(len(s), maxErr)]
}

// Tree returns the entry. An error is the peer's doing: a value that no entry has.
func (e *Entry) Tree() (tree.Entry, error) {
	t := tree.Entry{
		Path: string(e.Path), Kind: e.Kind, Perm: fs.FileMode(e.Perm), Size: e.Size,
		MTime: time.Unix(e.MTime, int64(e.Nanos)), Link: string(e.Link), Same: string(e.Same),
	}
	if err := tree.Check(t.Path); err != nil {
		return t, err
	}
	bad := func(format string, args ...any) (tree.Entry, error) {
		return t, fmt.Errorf("%q: %w", t.Path, fmt.Errorf(format, args...))
	}
	const year9999 = 253402300799
	switch {
	case len(e.Path) > MaxPath || len(e.Link) > MaxPath || len(e.Same) > MaxPath:
		return bad("a name of more than %d octets", MaxPath)
	case e.Kind > tree.Other:
		return bad("kind %d: at most %d", e.Kind, tree.Other)
	case e.Perm > 0o777:
		return bad("permissions %#o: at most 0777", e.Perm)
	case e.Size < 0:
		return bad("size %d: negative", e.Size)
	case e.Nanos < 0 || e.Nanos >= 1e9:
		return bad("%d billionths of a second", e.Nanos)
	case e.MTime < -year9999 || e.MTime > year9999:
		return bad("time %d: no year of four digits", e.MTime)
	case e.Err != "":
		return t, errors.New(e.Err[:min(len(e.Err), maxErr)])
	}
	if len(e.Same) > 0 {
		if err := tree.Check(t.Same); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Weight is roughly what an entry needs in a message.
func (e *Entry) Weight() int { return len(e.Path) + len(e.Link) + len(e.Same) + len(e.Err) + 40 }

// CheckRange checks Off, Len and Spans of a request against a file of size octets.
func CheckRange(off, n int64, spans []tree.Span, size int64) error {
	if off < 0 || n < 0 || n > Chunk || off > math.MaxInt64-n || off+n > size {
		return fmt.Errorf("octets %d to %d+%d of a file of %d, at most %d at once", off, off, n, size, Chunk)
	}
	end := int64(0)
	for _, s := range spans {
		if s.Off < end || s.Len <= 0 || s.Len > n || s.Off > n-s.Len {
			return fmt.Errorf("data at %d, %d octets: not in order within a chunk of %d", s.Off, s.Len, n)
		}
		end = s.Off + s.Len
	}
	return nil
}

// SumLen is the length of a checksum, in octets.
const SumLen = 16

// Sum is the checksum of octets: XXH3, 128 bits.
type Sum [SumLen]byte

// SumOf returns the checksum of a chunk's data.
func SumOf(chunk []byte, spans []tree.Span) Sum {
	if len(spans) == 1 {
		s := spans[0]
		return xxh3.Hash128(chunk[s.Off:][:s.Len]).Bytes()
	}
	h := xxh3.New128()
	for _, s := range spans {
		_, _ = h.Write(chunk[s.Off:][:s.Len])
	}
	return h.Sum128().Bytes()
}

// Whole is the span of a chunk without holes.
func Whole(n int64) []tree.Span {
	if n == 0 {
		return nil
	}
	return []tree.Span{{Len: n}}
}

var (
	encoder = must(cbor.CoreDetEncOptions().EncMode())
	decoder = must(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		MaxNestedLevels: 4, MaxArrayElements: MaxEntries, MaxMapPairs: 16,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the options are constants
	}
	return v
}

// Marshal returns a message's octets.
func Marshal(v any) ([]byte, error) {
	b, err := encoder.Marshal(v)
	if err == nil && len(b) > MaxMessage {
		return nil, fmt.Errorf("a message of %d octets: at most %d", len(b), MaxMessage)
	}
	return b, err
}

// Unmarshal reads a message. An error is the peer's doing.
func Unmarshal(b []byte, v any) error {
	if err := decoder.Unmarshal(b, v); err != nil {
		return fmt.Errorf("a message of %d octets: %w", len(b), err)
	}
	return nil
}

// Buffer reads a region.
func Buffer(b []byte) (iwarp.RemoteBuffer, error) {
	var r iwarp.RemoteBuffer
	if err := r.UnmarshalBinary(b); err != nil {
		return r, fmt.Errorf("region: %w", err)
	}
	return r, nil
}
