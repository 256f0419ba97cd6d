package interop

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/protocol"
)

// success is what each signaled work request of siw's end shall give.
const success = "success"

// verbsCases are the exchanges in which both ends are content, or one end's
// invalidation bears on the other.
func verbsCases() []verbsCase {
	const big = 1 << 20
	return []verbsCase{
		{
			name:  "zero length",
			setup: ok("mr:a:4096:rw"),
			script: append(ok("advertise:a", "learn:0"),
				step{do: "send:-", want: success}, step{do: "send:a+0+0:s", want: success}, step{
					do: "send:-:i", want: success,
				},
				step{do: "write:a+0+0:0", want: success}, step{do: "read:a+0+0:0", want: success},
				step{do: "send-inv:-:0", want: success},
				step{do: "recv", want: "0 octets on 0"}, step{do: "recv", want: "0 octets on 0"}, step{
					do: "recv", want: "0 octets on 0",
				}, gone),
			run: zeroLength,
		},
		{
			name:  "siw sends with invalidate",
			setup: ok("mr:a:4096:-", "fill:a:5"),
			script: append(ok("learn:0", "learn:1"), step{do: "send-inv:a+0+100:0", want: success},
				step{do: "send-inv:a+0+7:1:s", want: success}, step{do: "write:a+0+8:0", want: success}, gone),
			run: siwInvalidates, terminate: protocol.DDPTaggedInvalidSTag,
		},
		{
			name:  "we send with invalidate",
			setup: ok("mr:a:4096:rw"),
			script: append(ok("advertise:a"), step{do: "recv:1", want: "64 octets on 0, as expected"},
				step{do: "check:a+0+64:1", want: "as expected"}, gone),
			run: weInvalidate,
		},
		{
			name:  "siw sends solicited",
			setup: ok("mr:a:4096:-"),
			script: []step{
				{do: "send:a+0+10", want: success},
				{do: "recv", want: "0 octets on 0"},
				{do: "send:a+0+10:s", want: success},
				gone,
			},
			run: siwSolicits,
		},
		{
			// siw's end gets no event: see README.md.
			name: "we send solicited",
			script: []step{
				{do: "arm:solicited", want: "ok"},
				{do: "send:-", want: success},
				{do: "recv", want: "10 octets on 0"},
				{do: "event:100", want: "none"},
				{do: "send:-", want: success},
				{do: "recv", want: "10 octets on 0"},
				{do: "event:500", want: "*"},
				{do: "arm:any", want: "ok"},
				{do: "send:-", want: success},
				{do: "event:5000", want: "event"},
				{do: "recv", want: "0 octets on 0"},
				gone,
			},
			run: weSolicit,
		},
		{
			name:  "shared receive queue in siw",
			conns: 4,
			setup: ok("srq", "recvs:8:4096"),
			script: []step{
				{do: "spend", want: "ok"},
				{do: "limit:4", want: "ok"},
				{do: "on:0", want: "ok"},
				{do: "send:-", want: success},
				{do: "recv:0", want: "100 octets on 0, as expected"},
				{do: "on:1", want: "ok"},
				{do: "send:-", want: success},
				{do: "recv:1", want: "100 octets on 1, as expected"},
				{do: "on:2", want: "ok"},
				{do: "send:-", want: success},
				{do: "recv:2", want: "100 octets on 2, as expected"},
				{do: "on:3", want: "ok"},
				{do: "send:-", want: success},
				{do: "recv:3", want: "100 octets on 3, as expected"},
				{do: "async:0", want: "none"},
				{do: "on:0", want: "ok"},
				{do: "send:-", want: success},
				{do: "recv:4", want: "100 octets on 0, as expected"},
				{do: "async:5000", want: "SRQ limit reached"},
				{do: "on:1", want: "ok"},
				{do: "send:-", want: success},
				gone, // three receives are left, four messages come
				{do: "recv", want: "0 octets on 1"},
				{do: "recv", want: "0 octets on 1"},
				{do: "recv", want: "0 octets on 1"},
				{do: "on:2", want: "ok"},
				{do: "send:-", want: success},
			},
			run: sharedQueue,
		},
		{
			name: "many Reads by siw", depth: 4,
			setup: ok(fmt.Sprintf("mr:a:%d:-", big)),
			script: append(ok("learn:0"),
				append(readSteps(8, big), step{do: "wait:8", want: success},
					step{do: fmt.Sprintf("check:a+0+%d:9", big), want: "as expected"},
					step{do: "send:-", want: success}, gone)...),
			run: func(t *testing.T, v *verbsEnd) {
				if st := v.ConnectionState(); st.IRD != 4 || st.ORD != 4 {
					t.Errorf("IRD %d, ORD %d, want 4 and 4", st.IRD, st.ORD)
				}
				v.advertise(t, v.region(t, pattern(9, big), iwarp.RemoteRead).Remote())
				v.recv(t)
			},
		},
		{
			name: "many Reads by us", depth: 4,
			setup:  ok(fmt.Sprintf("mr:a:%d:r", big), "fill:a:9"),
			script: append(ok("advertise:a"), gone),
			run:    weRead,
		},
		{
			name:  "a fenced Send by siw",
			setup: ok(fmt.Sprintf("mr:a:%d:-", big)),
			script: append(ok("learn:0"), step{do: fmt.Sprintf("read:a+0+%d:0:p", big), want: "posted"},
				step{
					do: fmt.Sprintf("send:a+%d+96:fp", big-96), want: "posted",
				}, step{do: "wait:2", want: success}, gone),
			run: func(t *testing.T, v *verbsEnd) {
				data := pattern(3, big)
				v.advertise(t, v.region(t, data, iwarp.RemoteRead).Remote())
				_, got := v.recv(t)
				wantBytes(t, "the message behind the Read", got, data[big-96:])
			},
		},
		{
			name:   "a fenced Send by us",
			setup:  ok("mr:a:65536:r", "fill:a:3"),
			script: append(ok("advertise:a"), step{do: "recv:3", want: "96 octets on 0, as expected"}, gone),
			run: func(t *testing.T, v *verbsEnd) {
				sink := make([]byte, 65536)
				v.post(t,
					iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{sink}, Remote: v.learn(t)},
					iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{sink[:96]}, Fence: true})
				for range 2 {
					if c := v.next(t, v.qp.SendCQ()); c.Err != nil {
						v.failed(t, c.Op.String(), c.Err)
					}
				}
			},
		},
		{
			name:  "inline and gathered, by siw",
			setup: ok("mr:a:4096:-", "mr:b:4096:-", "fill:a:0", "fill:b:100"),
			script: append(ok("learn:0"), step{do: "send:a+0+80:i", want: success},
				step{do: "send:a+0+1,b+0+2,a+1+1000,a+1001+1,b+7+77,a+2000+3", want: success},
				step{do: "write:a+0+33:0:i", want: success}, step{
					do: "write:a+33+1,a+34+2000:0+33", want: success,
				}, step{do: "send:-", want: success}, gone),
			run: siwGathers,
		},
		{
			name:  "inline and gathered, by us",
			setup: ok("recvs:8:4095:3", "mr:a:8192:w"),
			script: append(ok("advertise:a"), step{do: "recv:0", want: "80 octets on 0, as expected"},
				step{do: "recv:0", want: "4095 octets on 0, as expected"},
				step{do: "check:a+0+4095:0", want: "as expected"}, gone),
			run: weGather,
		},
		{
			name:  "large and unaligned, by siw",
			setup: ok(fmt.Sprintf("mr:a:%d:-", big), fmt.Sprintf("mr:b:%d:-", big), "fill:a:1"),
			script: append(ok("learn:0"), step{fmt.Sprintf("write:a+0+%d:0+3", big-5), success},
				step{fmt.Sprintf("read:b+0+%d:0+3", big-5), success}, step{
					do: fmt.Sprintf("check:b+0+%d:1", big-5), want: "as expected",
				}, step{do: "send:-", want: success}, gone),
			run: func(t *testing.T, v *verbsEnd) {
				data := make([]byte, big)
				v.advertise(t, v.region(t, data, iwarp.RemoteWrite|iwarp.RemoteRead).Remote())
				v.recv(t)
				wantBytes(t, "written", data[3:big-2], pattern(1, big-5))
			},
		},
		{
			name:  "large and unaligned, by us",
			setup: ok(fmt.Sprintf("mr:a:%d:rw", big)),
			script: append(ok("advertise:a"), step{do: "recv", want: "0 octets on 0"},
				step{do: fmt.Sprintf("check:a+0+%d:1", big-5), want: "as expected"}, gone),
			run: func(t *testing.T, v *verbsEnd) {
				at, data, back := v.learn(t), pattern(1, big-5), make([]byte, big-1)
				v.do(t, iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{data[:777], data[777:]}, Remote: at})
				at.TO++
				v.do(t, iwarp.SendWR{Op: iwarp.OpRead, SG: [][]byte{back[1:99], back[99 : big-5]}, Remote: at})
				wantBytes(t, "read", back[1:big-5], data[1:])
				v.send(t)
			},
		},
		{
			name: "what siw lacks",
			script: []step{
				{do: "caps", want: "atomics no, windows 0, *"},
				{do: "try:alloc-mw", want: "* not supported"},
				{do: "try:local-inv", want: "Invalid argument"},
				{do: "try:send-imm", want: "Invalid argument"},
				{do: "try:write-imm", want: "Invalid argument"},
				{do: "try:fetch-add", want: "Invalid argument"},
				{do: "try:compare-swap", want: "Invalid argument"},
				gone,
			},
			run: func(*testing.T, *verbsEnd) {},
		},
		unsupported("Immediate Data", iwarp.SendWR{Op: iwarp.OpImmediate, Immediate: 7}),
		unsupported("Immediate Data, solicited", iwarp.SendWR{Op: iwarp.OpImmediate, Solicited: true}),
		unsupported("FetchAdd", iwarp.SendWR{Op: iwarp.OpFetchAdd, Operand: 1}),
		unsupported("CmpSwap", iwarp.SendWR{Op: iwarp.OpCompareSwap, Operand: 1}),
	}
}

func zeroLength(t *testing.T, v *verbsEnd) {
	at := v.learn(t)
	mr := v.region(t, make([]byte, 4096), iwarp.RemoteRead|iwarp.RemoteWrite)
	v.advertise(t, mr.Remote())
	for _, want := range []iwarp.Completion{{}, {Solicited: true}, {}, {Invalidated: mr.STag()}} {
		got, _ := v.recv(t)
		if got.Length != 0 || got.Solicited != want.Solicited || got.Invalidated != want.Invalidated {
			t.Errorf("received %+v, want %+v", got, want)
		}
	}
	v.send(t)
	v.send(t, nil, []byte{})
	// No octet is placed or read, so nobody may look at the STag.
	for _, at := range []iwarp.RemoteBuffer{at, {STag: 1}} {
		v.do(t, iwarp.SendWR{Op: iwarp.OpWrite, Remote: at})
		v.do(t, iwarp.SendWR{Op: iwarp.OpRead, Remote: at})
	}
	v.do(t, iwarp.SendWR{Op: iwarp.OpSendInvalidate, Invalidate: at.STag})
}

func siwInvalidates(t *testing.T, v *verbsEnd) {
	mrs := []*iwarp.MR{
		v.region(t, make([]byte, 64), iwarp.RemoteWrite), v.region(t, make([]byte, 64), iwarp.RemoteRead),
	}
	v.advertise(t, mrs[0].Remote())
	for _, mr := range mrs {
		if !mr.Valid() {
			t.Error("a region is invalid before its time")
		}
	}
	v.advertise(t, mrs[1].Remote())
	for i, length := range []int{100, 7} {
		c, p := v.recv(t)
		wantBytes(t, "message", p, pattern(5, length))
		if c.Invalidated != mrs[i].STag() || c.Solicited != (i == 1) || mrs[i].Valid() {
			t.Errorf("message %d: invalidated %v, solicited %v, region still valid: %v; want %v, %v, false",
				i, c.Invalidated, c.Solicited, mrs[i].Valid(), mrs[i].STag(), i == 1)
		}
	}
	v.wantError(t, protocol.DDPTaggedInvalidSTag, false)
}

func weInvalidate(t *testing.T, v *verbsEnd) {
	at := v.learn(t)
	data := pattern(1, 64)
	v.do(t, iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{data}, Remote: at})
	v.do(t, iwarp.SendWR{Op: iwarp.OpSendInvalidate, SG: [][]byte{data}, Invalidate: at.STag})
	v.post(t, iwarp.SendWR{Op: iwarp.OpWrite, SG: [][]byte{make([]byte, 64)}, Remote: at})
	v.wantError(t, protocol.DDPTaggedInvalidSTag, true)
}

func siwSolicits(t *testing.T, v *verbsEnd) {
	cq := v.qp.RecvCQ()
	cq.Arm(true)
	if c, _ := v.recv(t); c.Solicited {
		t.Error("a plain Send is solicited")
	}
	select {
	case <-cq.Events():
		t.Error("an event for a Send that is not solicited")
	default:
	}
	v.send(t)
	select {
	case <-cq.Events():
	case <-v.ctx.Done():
		v.failed(t, "waiting for an event", v.ctx.Err())
	}
	if c, _ := v.recv(t); !c.Solicited {
		t.Error("a solicited Send is not")
	}
}

func weSolicit(t *testing.T, v *verbsEnd) {
	v.recv(t) // it is armed
	ten := [][]byte{make([]byte, 10)}
	v.do(t, iwarp.SendWR{Op: iwarp.OpSend, SG: ten})
	v.recv(t)
	v.do(t, iwarp.SendWR{Op: iwarp.OpSend, SG: ten, Solicited: true})
	v.recv(t) // armed again
	v.send(t)
}

// sharedQueue sends one message after another, so that siw's end knows whose is
// next.
func sharedQueue(t *testing.T, e *verbsEnd) {
	for i := range 5 {
		v := e.conns[i%4]
		v.recv(t)
		v.send(t, pattern(i, 100))
	}
	greedy := e.conns[1]
	greedy.recv(t)
	for range 4 {
		greedy.post(t, iwarp.SendWR{Op: iwarp.OpSend})
	}
	greedy.wantError(t, protocol.DDPUntaggedNoBuffer, true)
	e.conns[2].recv(t) // it stands
}

func readSteps(n, size int) []step {
	steps := make([]step, n)
	for i := range steps {
		part := size / n
		steps[i] = step{do: fmt.Sprintf("read:a+%d+%d:0+%d:p", i*part, part, i*part), want: "posted"}
	}
	return steps
}

func weRead(t *testing.T, v *verbsEnd) {
	const size, n = 1 << 20, 8
	at, sink := v.learn(t), make([]byte, size)
	for i := range n {
		part := size / n
		v.post(t, iwarp.SendWR{
			ID: uint64(i), Op: iwarp.OpRead, SG: [][]byte{sink[i*part : (i+1)*part]},
			Remote: iwarp.RemoteBuffer{STag: at.STag, TO: at.TO + uint64(i*part)},
		})
	}
	for i := range n {
		if c := v.next(t, v.qp.SendCQ()); c.Err != nil || c.ID != uint64(i) {
			t.Fatalf("completion %d: %+v", i, c)
		}
	}
	wantBytes(t, "read", sink, pattern(9, size))
}

func siwGathers(t *testing.T, v *verbsEnd) {
	data := make([]byte, 4096)
	mr := v.region(t, data, iwarp.RemoteWrite)
	v.advertise(t, mr.Remote())
	a, b := pattern(0, 4096), pattern(100, 4096)
	_, got := v.recv(t)
	wantBytes(t, "inline", got, a[:80])
	_, got = v.recv(t)
	var want []byte
	for _, part := range [][]byte{a[:1], b[:2], a[1:1001], a[1001:1002], b[7:84], a[2000:2003]} {
		want = append(want, part...)
	}
	wantBytes(t, "gathered", got, want)
	v.recv(t)
	wantBytes(t, "written", data[:2034], a[:2034])
}

func weGather(t *testing.T, v *verbsEnd) {
	at, data := v.learn(t), pattern(0, 4095)
	inline := pattern(0, 80)
	v.post(t, iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{inline[:1], inline[1:80]}, Inline: true})
	clear(inline) // ours again at once
	if c := v.next(t, v.qp.SendCQ()); c.Err != nil {
		v.failed(t, "inline", c.Err)
	}
	pieces := [][]byte{data[:1], data[1:3], data[3:1000], nil, data[1000:1365], data[1365:4000], data[4000:]}
	v.do(t, iwarp.SendWR{Op: iwarp.OpWrite, SG: pieces, Remote: at})
	v.do(t, iwarp.SendWR{Op: iwarp.OpSend, SG: pieces})
}

// unsupported is an operation of RFC 7306, which siw does not have.
func unsupported(name string, wr iwarp.SendWR) verbsCase {
	return verbsCase{
		name:   name,
		setup:  ok("mr:a:4096:rw"),
		script: append(ok("advertise:a"), gone),
		run: func(t *testing.T, v *verbsEnd) {
			wr.Remote = v.learn(t)
			if wr.Op != iwarp.OpImmediate {
				wr.SG = nil
			} else {
				wr.Remote = iwarp.RemoteBuffer{}
			}
			v.post(t, wr)
			c := v.next(t, v.qp.SendCQ())
			v.wantError(t, protocol.RDMAPOpcode, true)
			// Immediate Data has no answer: it has completed when it was sent.
			if wr.Op != iwarp.OpImmediate && !errors.Is(c.Err, v.Err()) {
				t.Errorf("%v ended with: %v; want %v", wr.Op, c.Err, v.Err())
			}
			if !errors.Is(v.Err(), errors.ErrUnsupported) {
				t.Errorf("%v is not errors.ErrUnsupported", v.Err())
			}
			// siw does not say which message it was.
			if got := v.PeerSupports(wr.Op); got == iwarp.Supported {
				t.Errorf("PeerSupports: %v", got)
			}
		},
	}
}
