package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
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
	out    *ui.Output
	ends   map[endKey]*extractedEnd
	open   []*extractedEnd // with an open file, the one that was opened first before others
	files  uint64
	octets uint64
}

type endKey struct {
	conn int
	from analysis.Side
}

// extractedEnd is what one end sends.
type extractedEnd struct {
	dir    string
	count  int
	path   string   // the message under way, "" between two
	file   *os.File // its file, nil if others need to be open
	w      *bufio.Writer
	opcode rdmap.Opcode
	msn    uint32
}

// newExtractor makes the folder.
func newExtractor(dir string, kind extractKind, out *ui.Output) (*extractor, error) {
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

func (x *extractor) event(e analysis.Event) error {
	switch e := e.(type) {
	case *analysis.FPDU:
		return x.fpdu(e)
	case *analysis.Closed:
		var err error
		for side := analysis.Initiator; side <= analysis.SideB; side++ {
			key := endKey{e.Conn.Number, side}
			if end := x.ends[key]; end != nil {
				err = errors.Join(err, x.close(end))
				delete(x.ends, key)
			}
		}
		return err
	}
	return nil
}

func (x *extractor) fpdu(f *analysis.FPDU) error {
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
		return errors.Join(x.write(end, f.ULPDU), x.close(end))
	}
	if !ok || !op.Payload() && op != rdmap.OpcodeImmediate && op != rdmap.OpcodeImmediateSolicited {
		return x.close(end)
	}
	if end.path == "" || end.opcode != op || end.msn != h.MSN {
		if err := errors.Join(x.close(end), x.create(end, f, op)); err != nil {
			return err
		}
		end.opcode, end.msn = op, h.MSN
	}
	if err := x.write(end, payload); err != nil || !h.Last {
		return err
	}
	return x.close(end)
}

// create starts the next file of an end.
func (x *extractor) create(end *extractedEnd, f *analysis.FPDU, op rdmap.Opcode) (err error) {
	end.count++
	name := strings.ReplaceAll(strings.ToLower(op.String()), " ", "-")
	if op == 0xff {
		name = "no-header"
	}
	end.path = filepath.Join(end.dir, fmt.Sprintf("%06d-frame-%d-%s", end.count, f.Frame, name))
	x.files++
	return x.use(end, os.O_EXCL)
}

// maxOpen bounds the files that are open at once: the messages of many connections
// may be under way.
const maxOpen = 64

// use opens the file under way, to be continued.
func (x *extractor) use(end *extractedEnd, flag int) (err error) {
	if len(x.open) >= maxOpen {
		if err := x.release(x.open[0]); err != nil {
			return err
		}
	}
	if end.file, err = os.OpenFile(end.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|flag, 0o666); err != nil {
		return fmt.Errorf("--extract: %w", err)
	}
	x.open = append(x.open, end)
	if end.w == nil {
		end.w = bufio.NewWriter(end.file)
	} else {
		end.w.Reset(end.file)
	}
	return nil
}

func (x *extractor) write(end *extractedEnd, b []byte) error {
	if end.file == nil {
		if err := x.use(end, 0); err != nil {
			return err
		}
	}
	x.octets += uint64(len(b))
	_, err := end.w.Write(b)
	return err
}

// release closes the file, which can be continued.
func (x *extractor) release(end *extractedEnd) error {
	if end.file == nil {
		return nil
	}
	err := errors.Join(end.w.Flush(), end.file.Close())
	end.file = nil
	end.w.Reset(io.Discard)
	x.open = slices.DeleteFunc(x.open, func(o *extractedEnd) bool { return o == end })
	return err
}

// close completes the file under way, if there is one.
func (x *extractor) close(end *extractedEnd) error {
	end.path = ""
	return x.release(end)
}

// extractedEvent tells what was extracted.
type extractedEvent struct {
	Dir    string `json:"dir"`
	Kind   string `json:"kind"`
	Files  uint64 `json:"files"`
	Octets uint64 `json:"octets"`
}

func (e extractedEvent) EventKind() string { return "extracted" }

func (e extractedEvent) Text() string {
	return fmt.Sprintf("%s: %s with %s (%s)", ui.Printable(e.Dir), ui.Plural(e.Files, "file"),
		ui.Plural(e.Octets, "octet"), e.Kind)
}

func (x *extractor) end(*analysis.Reader, error) error {
	var err error
	for _, end := range x.ends {
		err = errors.Join(err, x.close(end))
	}
	if err == nil {
		x.out.Emit(extractedEvent{Dir: x.dir, Kind: string(x.kind), Files: x.files, Octets: x.octets})
	}
	return err
}
