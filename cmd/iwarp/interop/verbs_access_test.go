package interop

import (
	"errors"
	"math"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// weAccess are our mistakes, which siw must refuse. The code is what siw's
// Terminate has, as our connection reports it.
func weAccess() []verbsCase {
	write := iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 64)}}
	read := iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{make([]byte, 64)}}
	other := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { at.STag ^= 0x00800000; return at }
	key := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { at.STag ^= 1; return at }
	beyond := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { at.TO += 4096 - 63; return at }
	before := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { at.TO--; return at }
	same := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { return at }
	return []verbsCase{
		refused("we write with an unknown STag", "rw", write, other, protocol.DDPTaggedInvalidSTag),
		refused("we write with a wrong key", "rw", write, key, protocol.DDPTaggedInvalidSTag),
		refused("we write beyond the end", "rw", write, beyond, protocol.DDPTaggedBounds),
		refused("we write before the start", "rw", write, before, protocol.DDPTaggedBounds),
		refused("we write without the right", "r", write, same, protocol.DDPTaggedInvalidSTag),
		refused("we write to another domain", "rwo", write, same, protocol.DDPTaggedSTagNotAssociated),
		refused("we read with an unknown STag", "rw", read, other, protocol.RDMAPInvalidSTag),
		refused("we read with a wrong key", "rw", read, key, protocol.RDMAPInvalidSTag),
		refused("we read beyond the end", "rw", read, beyond, protocol.RDMAPBounds),
		refused("we read before the start", "rw", read, before, protocol.RDMAPBounds),
		refused("we read from another domain", "rwo", read, same, protocol.RDMAPSTagNotAssociated),
		{
			// siw does not look at this right: see README.md.
			name:   "we read without the right",
			setup:  ok("mr:a:4096:w", "fill:a:4"),
			script: append(ok("advertise:a"), gone),
			run: func(t *testing.T, v *verbsEnd) {
				sink := make([]byte, 64)
				v.post(t, iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{sink}, Remote: v.learn(t)})
				if c := v.next(t, v.qp.SendCQ()); c.Err == nil {
					t.Log("siw lets us read memory without the right to")
					wantBytes(t, "read", sink, pattern(4, 64))
				} else {
					v.wantError(t, protocol.RDMAPAccess, true)
				}
			},
		},
		invalidation("we invalidate an unknown STag", "rw", other, protocol.RDMAPOpCannotInvalidate),
		invalidation("we invalidate an STag of another domain", "rwo", same, protocol.RDMAPCannotInvalidate),
		{
			name:  "we send a message that is too long",
			setup: ok("recvs:4:100"),
			script: []step{
				{do: "send:-", want: success},
				{do: "recv", want: "local length error"},
				{do: "recv", want: "Work Request Flushed Error"},
				gone,
			},
			run: func(t *testing.T, v *verbsEnd) {
				v.recv(t) // siw's end knows that the connection stands: see README.md
				v.post(t, iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{make([]byte, 101)}})
				v.wantError(t, protocol.DDPUntaggedNoBuffer, true)
			},
		},
		{
			name:  "we send without a receive",
			setup: ok("recvs:2:100"),
			script: []step{
				{do: "send:-", want: success},
				gone,
				{do: "recv", want: "0 octets on 0"},
				{do: "recv", want: "0 octets on 0"},
			},
			run: func(t *testing.T, v *verbsEnd) {
				v.recv(t)
				for range 3 {
					v.post(t, iwarp.SendWR{Op: iwarp.OpSend})
				}
				v.wantError(t, protocol.DDPUntaggedNoBuffer, true)
			},
		},
	}
}

// refused is an access of ours that siw must refuse.
func refused(name, rights string, wr iwarp.SendWR, at func(iwarp.RemoteBuffer) iwarp.RemoteBuffer,
	code protocol.Code,
) verbsCase {
	return verbsCase{
		name:   name,
		setup:  ok("mr:a:4096:"+rights, "fill:a:9"),
		script: append(ok("advertise:a"), gone, step{do: "check:a+0+4096:9", want: "as expected"}),
		run: func(t *testing.T, v *verbsEnd) {
			wr.Remote = at(v.learn(t))
			v.post(t, wr)
			c := v.next(t, v.qp.SendCQ())
			v.wantError(t, code, true)
			// A Write has completed when it was sent; a Read learns of the error.
			if wr.Op == iwarp.OpRead && !errors.Is(c.Err, v.Err()) {
				t.Errorf("the Read ended with: %v; want %v", c.Err, v.Err())
			}
		},
	}
}

// invalidation is a Send with Invalidate that siw must refuse. It does, but sends
// its Terminate only when its user ends the connection.
func invalidation(name, rights string, at func(iwarp.RemoteBuffer) iwarp.RemoteBuffer, code protocol.Code) verbsCase {
	return verbsCase{
		name:  name,
		setup: ok("mr:a:4096:" + rights),
		script: append(ok("advertise:a"), step{do: "recv", want: "remote invalid request error"},
			step{do: "disconnect", want: "ok"}, gone),
		run: func(t *testing.T, v *verbsEnd) {
			v.post(t, iwarp.SendWR{Op: iwarp.OpSendInvalidate, Invalidate: at(v.learn(t)).STag})
			v.wantError(t, code, true)
		},
	}
}

// siwAccesses are siw's mistakes, which we must refuse, in the RFCs' words. siw's
// user learns little: a Write has completed when it was sent, and a Read is
// flushed like any request whose connection has ended.
func siwAccesses() []verbsCase {
	const flushed = "Work Request Flushed Error"
	both := iwarp.RemoteRead | iwarp.RemoteWrite
	write, read := step{do: "write:a+0+64:0", want: success}, step{do: "read:a+0+64:0", want: flushed}
	unknown := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { at.STag ^= 0x00800000; return at }
	beyond := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { at.TO += 4096 - 63; return at }
	wrap := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { at.TO = math.MaxUint64 - 62; return at }
	same := func(at iwarp.RemoteBuffer) iwarp.RemoteBuffer { return at }
	type mistake struct {
		name   string
		access iwarp.Access
		do     step
		at     func(iwarp.RemoteBuffer) iwarp.RemoteBuffer
		code   protocol.Code
	}
	var cases []verbsCase
	for _, m := range []mistake{
		{
			name: "siw writes with an unknown STag", access: both, do: write, at: unknown,
			code: protocol.DDPTaggedInvalidSTag,
		},
		{name: "siw writes beyond the end", access: both, do: write, at: beyond, code: protocol.DDPTaggedBounds},
		{
			name: "siw writes around the end of all offsets", access: both, do: write, at: wrap,
			code: protocol.DDPTaggedTOWrap,
		},
		{
			name: "siw writes without the right", access: iwarp.RemoteRead, do: write, at: same,
			code: protocol.DDPTaggedInvalidSTag,
		},
		{name: "siw reads with an unknown STag", access: both, do: read, at: unknown, code: protocol.RDMAPInvalidSTag},
		{name: "siw reads beyond the end", access: both, do: read, at: beyond, code: protocol.RDMAPBounds},
		{name: "siw reads around the end of all offsets", access: both, do: read, at: wrap, code: protocol.RDMAPTOWrap},
		{
			name: "siw reads without the right", access: iwarp.RemoteWrite, do: read, at: same,
			code: protocol.RDMAPAccess,
		},
		{
			name: "siw invalidates an unknown STag", access: both, do: step{do: "send-inv:-:0", want: success},
			at: unknown, code: protocol.RDMAPCannotInvalidate,
		},
	} {
		cases = append(cases, verbsCase{
			name:   m.name,
			setup:  ok("mr:a:4096:-", "fill:a:1"),
			script: append(ok("learn:0"), m.do, gone), terminate: m.code,
			run: func(t *testing.T, v *verbsEnd) {
				data := make([]byte, 4096)
				mr := v.region(t, data, m.access)
				v.advertise(t, m.at(mr.Remote()))
				v.wantError(t, m.code, false)
				wantBytes(t, "the region", data, make([]byte, 4096))
			},
		})
	}
	return append(cases, verbsCase{
		name:   "siw reaches for another connection's region",
		setup:  ok("mr:a:4096:-"),
		script: append(ok("learn:0"), write, gone), terminate: protocol.DDPTaggedSTagNotAssociated,
		run: func(t *testing.T, v *verbsEnd) {
			qp, err := v.qp.PD().NewQP(nil)
			if err != nil {
				t.Fatal(err)
			}
			mr, err := v.qp.PD().NewMR(make([]byte, 4096), both, &iwarp.MROptions{QP: qp})
			if err != nil {
				t.Fatal(err)
			}
			v.advertise(t, mr.Remote())
			v.wantError(t, protocol.DDPTaggedSTagNotAssociated, false)
		},
	}, verbsCase{
		name:      "siw invalidates a shared STag",
		setup:     ok("mr:a:4096:-"),
		script:    append(ok("learn:0"), step{do: "send-inv:-:0", want: success}, gone),
		terminate: protocol.RDMAPCannotInvalidate,
		run: func(t *testing.T, v *verbsEnd) {
			mr, err := v.qp.PD().NewMR(make([]byte, 4096), both, nil)
			if err != nil {
				t.Fatal(err)
			}
			v.advertise(t, mr.Remote())
			v.wantError(t, protocol.RDMAPCannotInvalidate, false)
			if !mr.Valid() {
				t.Error("the region is invalid")
			}
		},
	}, verbsCase{
		name:   "siw sends a message that is too long",
		setup:  ok("mr:a:8192:-"),
		script: append([]step{{do: "send:a+0+4097", want: success}}, gone), terminate: protocol.DDPUntaggedTooLong,
		run: func(t *testing.T, v *verbsEnd) { v.wantError(t, protocol.DDPUntaggedTooLong, false) },
	}, verbsCase{
		name:      "siw sends without a receive",
		script:    append(sends(recvCount+1), gone),
		terminate: protocol.DDPUntaggedNoBuffer,
		run:       func(t *testing.T, v *verbsEnd) { v.wantError(t, protocol.DDPUntaggedNoBuffer, false) },
	})
}

func sends(n int) []step {
	s := make([]step, n)
	for i := range s {
		s[i] = step{do: "send:-", want: success}
	}
	return s
}
