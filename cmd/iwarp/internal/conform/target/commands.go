package target

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/advert"

	"github.com/go-iwarp/iwarp"
)

// command is what a message of the kit's can ask for: the least length of its
// arguments, and what is done.
type command struct {
	args int
	run  func(p *program, args []byte) ([]byte, error)
}

// The commands of docs/conform.md, but for E, echo.
var commands = map[byte]command{
	'H': {0, (*program).hold},
	'R': {16, (*program).read},
	'W': {16, (*program).write},
	'A': {20, (*program).fetchAdd},
	'C': {28, (*program).compareSwap},
	'S': {4, (*program).sendLong},
	'V': {4, (*program).sendInvalidate},
	'I': {8, (*program).immediate},
	'M': {8, (*program).many},
	'K': {8, (*program).sums},
	'X': {0, (*program).closeHalf},
}

// most bounds what one command moves, in octets.
const most = 4 << 20

func remote(args []byte) (iwarp.RemoteBuffer, int) {
	at := iwarp.RemoteBuffer{STag: iwarp.STag(binary.BigEndian.Uint32(args)), TO: binary.BigEndian.Uint64(args[4:])}
	return at, int(min(binary.BigEndian.Uint32(args[12:]), most))
}

// holdTime is the longest hold.
const holdTime = 5 * time.Second

// hold stops receiving for good, after its answer: messages find no buffer then
// when all are used.
func (p *program) hold([]byte) ([]byte, error) {
	if err := p.c.Send(p.ctx, []byte("h")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.ctx, holdTime)
	defer cancel()
	select {
	case <-p.c.Done():
	case <-ctx.Done():
	}
	return nil, errDone
}

// read reads the kit's memory: STag, TO, length. The answer is the CRC32c of it.
func (p *program) read(args []byte) ([]byte, error) {
	at, n := remote(args)
	b := make([]byte, n)
	if err := p.c.RDMARead(p.ctx, b, at); err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint32(nil, advert.Checksum(b)), nil
}

// write writes the first octets of the large region's content to the kit's
// memory: STag, TO, length.
func (p *program) write(args []byte) ([]byte, error) {
	at, n := remote(args)
	b := make([]byte, n)
	advert.Fill(advert.Large, b)
	return nil, p.c.RDMAWrite(p.ctx, b, at)
}

// fetchAdd: STag, TO, what to add. The answer is what was there.
func (p *program) fetchAdd(args []byte) ([]byte, error) {
	at, _ := remote(args)
	was, err := p.c.FetchAdd(p.ctx, at, binary.BigEndian.Uint64(args[12:]))
	return binary.BigEndian.AppendUint64(nil, was), err
}

// compareSwap: STag, TO, compare, swap. The answer is what was there.
func (p *program) compareSwap(args []byte) ([]byte, error) {
	at, _ := remote(args)
	was, err := p.c.CompareSwap(p.ctx, at, binary.BigEndian.Uint64(args[12:]), binary.BigEndian.Uint64(args[20:]))
	return binary.BigEndian.AppendUint64(nil, was), err
}

// sendLong answers with so many octets of the large region's content.
func (p *program) sendLong(args []byte) ([]byte, error) {
	b := make([]byte, min(binary.BigEndian.Uint32(args), most))
	advert.Fill(advert.Large, b)
	return b, nil
}

// sendInvalidate sends a Send with Invalidate of the kit's STag, empty, before its
// answer.
func (p *program) sendInvalidate(args []byte) ([]byte, error) {
	return nil, p.c.SendInvalidate(p.ctx, nil, iwarp.STag(binary.BigEndian.Uint32(args)))
}

// immediate sends eight octets of Immediate Data before its answer.
func (p *program) immediate(args []byte) ([]byte, error) {
	return nil, p.c.SendImmediate(p.ctx, binary.BigEndian.Uint64(args))
}

// many posts Reads of one octet at once: STag, how many. The answer comes when all
// are done.
func (p *program) many(args []byte) ([]byte, error) {
	stag, n := iwarp.STag(binary.BigEndian.Uint32(args)), min(binary.BigEndian.Uint32(args[4:]), 100)
	b := make([]byte, n)
	for i := range n {
		wr := iwarp.SendWR{
			Op: iwarp.OpRead, SG: [][]byte{b[i : i+1]}, Remote: iwarp.RemoteBuffer{STag: stag, TO: uint64(i)},
			Unsignaled: true,
		}
		if err := p.c.QP().PostSend(wr); err != nil {
			return nil, err
		}
	}
	return nil, p.c.Drain(p.ctx)
}

// sums returns kind and CRC32c of each region of a connection that has ended or is
// about to.
func (p *program) sums(args []byte) ([]byte, error) {
	m := p.t.memory(binary.BigEndian.Uint64(args))
	if m == nil || m == &p.mem {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, 4*time.Second)
	defer cancel()
	select {
	case <-m.done:
	case <-ctx.Done():
		return nil, nil
	}
	var b []byte
	for i := range m.areas {
		b = append(b, m.areas[i].kind)
		b = binary.BigEndian.AppendUint32(b, m.areas[i].sum())
	}
	return b, nil
}

// closeHalf closes the target's half; it receives on until the kit closes its own.
func (p *program) closeHalf([]byte) ([]byte, error) {
	p.c.CloseWrite()
	for {
		if _, err := p.c.Recv(p.ctx, p.buf[:]); err != nil {
			return nil, err
		}
	}
}
