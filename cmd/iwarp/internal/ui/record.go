package ui

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/capture"
)

// recording is what --record makes.
type recording struct {
	name string
	file *os.File
	rec  *capture.Recorder
}

// start makes the connections of cfg be recorded in the file called name.
func (r *recording) start(name string, cfg *iwarp.Config) (err error) {
	if r.file, err = os.Create(name); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	// Lossless, since a recording with holes shows faults that nobody made.
	if r.rec, err = capture.NewRecorder(r.file, &capture.Options{Lossless: true}); err != nil {
		_ = r.file.Close()
		return fmt.Errorf("--record %s: %w", name, err)
	}
	r.name = name
	cfg.Wrap = r.rec.Conn
	return nil
}

// stop completes the file.
func (r *recording) stop() error {
	if r.rec == nil {
		return nil
	}
	err := errors.Join(r.rec.Close(), r.file.Close())
	if err != nil {
		return fmt.Errorf("--record %s: %w", r.name, err)
	}
	return nil
}

// AfterRun is called by kong after a command's Run, which has closed all
// connections then, whether it failed or not.
func (f *StartupFlags) AfterRun() error { return f.recording.stop() }
