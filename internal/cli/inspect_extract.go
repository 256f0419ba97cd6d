package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/rdmap"
)

// extractKind says what --extract takes out.
type extractKind string

const (
	extractPayload extractKind = "payload"
	extractULPDU   extractKind = "ulpdu"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *extractKind) UnmarshalText(b []byte) error {
	switch v := extractKind(b); v {
	case extractPayload, extractULPDU:
		*k = v
		return nil
	}
	return fmt.Errorf("%q: payload or ulpdu", b)
}

// extractor writes files DIR/conn-N-END/NUMBER-frame-N-OPERATION, NUMBER being the
// place in the order of that end.
type extractor struct {
	dir    string
	kind   extractKind
	out    *output
	ends   map[endKey]*extractedEnd
	files  uint64
	octets uint64
}

type endKey struct {
	conn int
	from capture.Side
}

// extractedEnd is what one end sends.
type extractedEnd struct {
	dir    string
	count  int
	file   *os.File // the message under way, nil between two
	w      *bufio.Writer
	opcode rdmap.Opcode
	msn    uint32
}

// newExtractor makes the folder.
func newExtractor(dir string, kind extractKind, out *output) (*extractor, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("--extract: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--extract: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("--extract %s: the folder is not empty, and files in it might be overwritten", dir)
	}
	return &extractor{dir: dir, kind: kind, out: out, ends: map[endKey]*extractedEnd{}}, nil
}

func (x *extractor) event(e capture.Event) error {
	switch e := e.(type) {
	case *capture.FPDU:
		return x.fpdu(e)
	case *capture.Closed:
		var err error
		for side := capture.Initiator; side <= capture.SideB; side++ {
			key := endKey{e.Conn.Number, side}
			if end := x.ends[key]; end != nil {
				err = errors.Join(err, end.close())
				delete(x.ends, key)
			}
		}
		return err
	}
	return nil
}

func (x *extractor) fpdu(f *capture.FPDU) error {
	key := endKey{f.Conn, f.From}
	end := x.ends[key]
	if end == nil {
		end = &extractedEnd{dir: filepath.Join(x.dir, fmt.Sprintf("conn-%d-%v", f.Conn, f.From))}
		if err := os.Mkdir(end.dir, 0o777); err != nil {
			return fmt.Errorf("--extract: %w", err)
		}
		x.ends[key] = end
	}
	h, payload, ok := headerOf(f.ULPDU)
	op := rdmap.Control(h.Control).Opcode()
	if x.kind == extractULPDU {
		if !ok {
			op = 0xff // no header, so no operation
		}
		if err := x.create(end, f, op); err != nil {
			return err
		}
		return errors.Join(x.write(end, f.ULPDU), end.close())
	}
	if !ok || !op.Payload() && op != rdmap.OpImmediate && op != rdmap.OpImmediateSolicited {
		return end.close()
	}
	if end.file == nil || end.opcode != op || end.msn != h.MSN {
		if err := errors.Join(end.close(), x.create(end, f, op)); err != nil {
			return err
		}
		end.opcode, end.msn = op, h.MSN
	}
	if err := x.write(end, payload); err != nil || !h.Last {
		return err
	}
	return end.close()
}

// create starts the next file of an end.
func (x *extractor) create(end *extractedEnd, f *capture.FPDU, op rdmap.Opcode) (err error) {
	end.count++
	name := strings.ReplaceAll(strings.ToLower(op.String()), " ", "-")
	if op == 0xff {
		name = "no-header"
	}
	path := filepath.Join(end.dir, fmt.Sprintf("%06d-frame-%d-%s", end.count, f.Frame, name))
	if end.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666); err != nil {
		return fmt.Errorf("--extract: %w", err)
	}
	x.files++
	if end.w == nil {
		end.w = bufio.NewWriter(end.file)
	} else {
		end.w.Reset(end.file)
	}
	return nil
}

func (x *extractor) write(end *extractedEnd, b []byte) error {
	x.octets += uint64(len(b))
	_, err := end.w.Write(b)
	return err
}

// close completes the file under way, if there is one.
func (e *extractedEnd) close() error {
	if e.file == nil {
		return nil
	}
	err := errors.Join(e.w.Flush(), e.file.Close())
	e.file = nil
	e.w.Reset(io.Discard)
	return err
}

// extractedEvent tells what was extracted.
type extractedEvent struct {
	Dir    string `json:"dir"`
	Kind   string `json:"kind"`
	Files  uint64 `json:"files"`
	Octets uint64 `json:"octets"`
}

func (e extractedEvent) kind() string { return "extracted" }

func (e extractedEvent) text() string {
	return fmt.Sprintf("%s: %s with %s (%s)", e.Dir, plural(e.Files, "file"), plural(e.Octets, "octet"), e.Kind)
}

func (x *extractor) end(*capture.Reader, error) error {
	var err error
	for _, end := range x.ends {
		err = errors.Join(err, end.close())
	}
	if err == nil {
		x.out.emit(extractedEvent{Dir: x.dir, Kind: string(x.kind), Files: x.files, Octets: x.octets})
	}
	return err
}
