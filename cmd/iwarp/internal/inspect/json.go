package inspect

import (
	"bufio"
	"encoding/json"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/capture"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// jsonSink writes an object a line, which are those of package capture.
type jsonSink struct {
	w            *bufio.Writer
	file         string
	hex, verdict bool
	rules        int
}

// fpduObject is an FPDU with its fields.
type fpduObject struct {
	*analysis.FPDU
	Fields []analysis.Field `json:"fields"`
}

// startupObject is a startup frame with its octets and fields.
type startupObject struct {
	*analysis.StartupFrame
	Octets analysis.Hex     `json:"octets"`
	Fields []analysis.Field `json:"fields"`
}

// endObject is the last line, if the capture could be read to its end.
type endObject struct {
	Event string `json:"event"` // "end"
	File  string `json:"file"`
	analysis.Stats
	Info capture.FileInfo `json:"info"`
	// RulesBroken counts the verdicts that were shown and are no SHOULD.
	RulesBroken int `json:"rules_broken"`
}

func (j *jsonSink) event(e analysis.Event) error {
	switch v := e.(type) {
	case *analysis.Verdict:
		if mandatory(v) {
			j.rules++
		}
		return j.object(v)
	case *analysis.FPDU:
		if j.hex && !j.verdict {
			return j.object(fpduObject{v, v.Fields()})
		}
		return nil
	case *analysis.StartupFrame:
		switch {
		case j.verdict:
			return nil
		case j.hex:
			return j.object(startupObject{v, v.Octets, v.Fields()})
		}
		return j.object(v)
	case *analysis.Opened, *analysis.Closed:
		return j.object(v)
	}
	if j.verdict {
		return nil
	}
	return j.object(e)
}

func (j *jsonSink) object(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, _ = j.w.Write(append(ui.Escaped(b), '\n')) // bufio keeps the error until Flush
	return nil
}

func (j *jsonSink) end(rd *analysis.Reader, err error) error {
	if err != nil {
		return nil // an object with the error follows
	}
	return j.object(endObject{Event: "end", File: j.file, Stats: rd.Stats(), Info: rd.Info(), RulesBroken: j.rules})
}
