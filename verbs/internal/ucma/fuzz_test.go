package ucma_test

import (
	"testing"

	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
	"github.com/go-iwarp/iwarp/verbs/internal/verbstest"
)

// No command makes the process crash, whatever its body, and however short it is. The
// addresses in it are made harmless: a program may overwrite its own memory.
func FuzzCommands(f *testing.F) {
	for cmd := range uint32(36) {
		for _, n := range []int{0, 4, 8, 16, 24, 40, 56, 64, 120, 136, 280, 300} {
			f.Add(cmd, false, make([]byte, n), uint16(64))
			f.Add(cmd, true, make([]byte, n), uint16(64))
		}
	}
	d, m := newDevice(f)
	p := verbstest.New(f, d, m)
	q := p.NewQP()
	_ = p.NewID(1)
	_, at := p.Bytes(1 << 16)
	f.Fuzz(func(t *testing.T, cmd uint32, cm bool, body []byte, out uint16) {
		p.T = t
		body = append([]byte(nil), body...)
		makes := cmd == uabi.CreateCompChannel || cmd == uabi.CreateCQ || cmd == uabi.CreateSRQ || cmd == uabi.AllocPD
		if cm && cmd == uabi.CMCreateID || !cm && makes {
			return // each makes something, and the fuzzer never tires
		}
		for _, off := range []int{0, 8, 16} {
			if len(body) >= off+8 {
				uabi.Order.PutUint64(body[off:], at)
			}
		}
		h := uabi.Header{Command: cmd, In: uint16((len(body) + uabi.HeaderLen) / 4), Out: min(out, 1000)}
		if cm {
			h.In = uint16(len(body))
			_ = p.CM.Command(append(uabi.Append(nil, h), body...))
			return
		}
		if cmd&uabi.Extended != 0 {
			h.In, h.Out = uint16(max(0, len(body)-16)/8), min(out, 100)
		}
		_ = p.Verbs.Command(append(uabi.Append(nil, h), body...))
		_ = p.Verbs.Doorbell(q.Handle)
	})
}
