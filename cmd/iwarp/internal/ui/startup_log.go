package ui

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
)

// StartupLog returns a logger that tells of what a listener warns of: a connection that
// got no further than startup, a failure to take one.
func StartupLog(out *Output) *slog.Logger { return slog.New(startupLog{out}) }

// startupLog is the handler of StartupLog.
type startupLog struct{ out *Output }

// Enabled implements [slog.Handler].
func (startupLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements [slog.Handler]. What happens to a connection the server tells itself.
func (h startupLog) Handle(_ context.Context, r slog.Record) error {
	what, ok := strings.CutPrefix(r.Message, "iwarp ")
	refused := r.Message == "stream refused"
	if !refused && (!ok || !strings.HasPrefix(what, "startup") && !strings.HasPrefix(what, "accept")) {
		return nil
	}
	e := ErrorEvent{Error: what}
	peer, more := "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Any().(type) {
		case error:
			e = NewErrorEvent(fmt.Errorf("%s: %w", what, v))
		case net.Addr:
			if a.Key == "remote" {
				peer = v.String()
			}
		case uint64:
			more = fmt.Sprintf(" (and %d more since the last one told)", v)
		}
		return true
	})
	e.Peer, e.Error = peer, e.Error+more
	h.out.Emit(e)
	return nil
}

// WithAttrs implements [slog.Handler].
func (h startupLog) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements [slog.Handler].
func (h startupLog) WithGroup(string) slog.Handler { return h }
