package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/go-iwarp/iwarp"
)

// engine is a Conn without a connection: what it makes of the peer's messages can be looked at.
func engine(ring int, credits uint16, peer privateData) *Conn {
	e := &endpoint{
		cfg: Config{RecvBuffer: ring, Credits: int(credits)}, recvs: make([]byte, msgLen),
		buf: make([]byte, ringOffset+ring),
	}
	e.list, e.ring = e.buf[:ringOffset], e.buf[ringOffset:]
	return newState(e, nil, peer)
}

// check is what holds whatever the peer does.
func (c *Conn) check(t *testing.T) {
	t.Helper()
	in, out := &c.in, &c.out
	if sum := in.unread + in.promised + in.freed; sum != len(c.ring) || min(in.unread, in.promised, in.freed) < 0 {
		t.Fatalf("%d octets unread, %d granted, %d free in a ring of %d", in.unread, in.promised, in.freed, len(c.ring))
	}
	if in.offset < 0 || in.offset >= len(c.ring) || int(in.limit-in.seq) > c.cfg.Credits {
		t.Fatalf("%+v", in)
	}
	if out.count < 0 || out.count > len(out.grants) || out.limit-out.seq > c.peer.credits {
		t.Fatalf("%+v", out)
	}
	for _, g := range out.grants[:out.count] {
		if g.length == 0 || g.check() != nil {
			t.Fatalf("grant %+v", g)
		}
	}
}

// FuzzEngine has a stream handle whatever a peer may do: messages, writes to its list of grants, at any moment. It
// accepts them or returns ErrProtocol, and what it knows of its memory and the peer's stays whole.
func FuzzEngine(f *testing.F) {
	f.Add([]byte{0, 6, 0, 0, 0, 2, 6, 0, 0, 80, 0, 0, 152})
	f.Add([]byte{
		0, 0, 16, 0, 0, 2, 255, 2, 255, 3, 0, 1, 1, 0, 32, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0, 0, 33, 0, 0, 152,
	})
	f.Add([]byte{0, 2, 0, 0, 224, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		const ring, credits = 8192, minCredits
		c := engine(ring, credits,
			privateData{
				credits: 32, grants: sge{addr: 0, stag: 1, length: 2}, first: sge{addr: 0, stag: 2, length: 4096},
			})
		take := func(n int) []byte {
			b := make([]byte, n)
			script = script[copy(b, script):]
			return b
		}
		for len(script) > 0 {
			switch op := take(1)[0]; op % 4 {
			case 0: // a message
				copy(c.recvs, take(msgLen))
				comp := iwarp.Completion{Op: iwarp.OpRecv, Length: msgLen}
				if op >= 128 {
					comp.Op, comp.Length = iwarp.Op(take(1)[0]), uint32(take(1)[0])
				}
				if err := c.received(&comp); err != nil {
					if !errors.Is(err, ErrProtocol) {
						t.Fatal(err)
					}
					return
				}
			case 1: // a write to the list
				copy(c.list[int(take(1)[0])%len(c.list):], take(sgeLen))
			case 2: // this end reads, and grants
				n := min(int(take(1)[0])*16, c.in.unread)
				c.in.consume(n, ring)
				if c.due() {
					if _, n, _ := c.in.grant(ring, credits); n%c.in.part != 0 {
						t.Fatalf("%d octets granted", n)
					}
				}
			case 3: // this end writes
				if n := int(take(1)[0]) * 16; c.out.room() {
					c.out.use(min(n, int(min(c.out.grants[0].length, ring))))
				}
			}
			c.check(t)
		}
	})
}

// Two ends keep to the rules whatever they do and when: each octet arrives once, at its place, and no grant is written
// over before it is taken. The list of the end that sends has from 2 entries, as that of rsockets, to many.
func TestEngines(t *testing.T) {
	const ring, credits = 8192, minCredits
	for _, entries := range []uint32{2, 3, 4, 7, 8, 9, 1024} {
		rnd := rand.New(rand.NewPCG(uint64(entries), 1))
		first := sge{addr: ringOffset, stag: 7, length: ring / 2}
		sender := engine(ring, credits,
			privateData{credits: credits, grants: sge{addr: 0, stag: 9, length: 2}, first: first})
		receiver := engine(ring, credits,
			privateData{credits: credits, grants: sge{addr: 0, stag: 8, length: entries}, first: first})
		list := make([]byte, entries*sgeLen)
		written, read := 0, 0 // octets; each is its number's last eight bits
		var toReceiver, toSender []uint32
		for turn := range 20000 {
			switch rnd.IntN(5) {
			case 0:
				if out := &sender.out; out.room() {
					g := out.grants[0]
					n := min(1+rnd.IntN(3000), int(g.length))
					for i := range n {
						receiver.buf[int(g.addr)+i] = byte(written)
						written++
					}
					out.use(n)
					toReceiver = append(toReceiver, message(kindData, uint32(n)))
				}
			case 1:
				if len(toReceiver) > 0 {
					binary.LittleEndian.PutUint32(receiver.recvs, toReceiver[0])
					toReceiver = toReceiver[1:]
					if err := receiver.received(&iwarp.Completion{Op: iwarp.OpRecv, Length: msgLen}); err != nil {
						t.Fatal(err)
					}
				}
			case 2:
				in := &receiver.in
				n := min(rnd.IntN(3000), in.unread)
				for i := range n {
					if b := receiver.ring[(in.offset+i)%ring]; b != byte(read) {
						t.Fatalf("turn %d: octet %d, want %d", turn, b, byte(read))
					}
					read++
				}
				in.consume(n, ring)
			case 3:
				in := &receiver.in
				if !receiver.due() {
					break
				}
				offset, n, limit := in.grant(ring, credits)
				value := uint32(limit) | grantMarked
				if n > 0 {
					entry := list[in.entry*sgeLen:][:sgeLen]
					if !bytes.Equal(entry[12:], make([]byte, 4)) {
						t.Fatalf("%d entries, turn %d: entry %d is not taken yet", entries, turn, in.entry)
					}
					copy(entry, (&sge{addr: ringOffset + uint64(offset), stag: 7, length: uint32(n)}).appendGrant(nil))
					in.entry = (in.entry + 1) % entries
					value |= grantMemory
				}
				toSender = append(toSender, message(kindGrant, value))
			case 4:
				if len(toSender) > 0 {
					kind, value := parseMessage(binary.LittleEndian.AppendUint32(nil, toSender[0]))
					toSender = toSender[1:]
					if err := sender.out.granted(value, credits, list); kind != kindGrant || err != nil {
						t.Fatal(kind, err)
					}
				}
			}
			receiver.check(t)
			sender.check(t)
		}
		if read < 10*ring {
			t.Errorf("%d octets written, %d read: not enough to show anything", written, read)
		}
	}
}
