package mpa

// inbuf holds what was read and is not used up yet.
//
// These octets are mem[rd:wr], in one piece, in the order of the stream. mem is nil,
// own or the octets of lent; hold changes which, and keeps these octets. A conn that
// waits holds no more memory than twice what it has (or 4 KiB).
type inbuf struct {
	pool   *memory
	mem    []byte
	rd, wr int
	lent   *block // borrowed from pool, or nil
	size   int    // of lent
	own    [ownRecvLen]byte
}

// octets returns what was read and is not used up.
func (b *inbuf) octets() []byte { return b.mem[b.rd:b.wr] }

func (b *inbuf) len() int { return b.wr - b.rd }

// room is where the next octets go; took says how many have come.
func (b *inbuf) room() []byte { return b.mem[b.wr:] }

func (b *inbuf) took(n int) { b.wr += n }

// use takes n octets from the front.
func (b *inbuf) use(n int) { b.rd += n }

// hold sees to memory for n octets, at least for those that are there, and no more
// than the smallest that will do. 0 lets an empty buffer go. What is there moves to
// the front.
func (b *inbuf) hold(n int) {
	n = max(n, b.len())
	switch {
	case n == 0:
		b.change(nil, nil, 0)
	case n <= ownRecvLen:
		b.change(b.own[:], nil, 0)
	default:
		size := sizeFor(min(n, recvBufLen))
		if b.lent != nil && b.size == size {
			b.front()
			return
		}
		lent := b.pool.lend(size)
		b.change(lent.octets, lent, size)
	}
}

// front moves what is there to the front.
func (b *inbuf) front() {
	if b.rd > 0 {
		b.wr = copy(b.mem, b.octets())
		b.rd = 0
	}
}

// change moves what is there to other memory, or to the front of own.
func (b *inbuf) change(mem []byte, lent *block, size int) {
	b.wr = copy(mem, b.octets())
	b.rd, b.mem = 0, mem
	if b.lent != nil {
		b.pool.giveBack(b.size, b.lent)
	}
	b.lent, b.size = lent, size
}

// drop forgets what is there.
func (b *inbuf) drop() {
	b.rd, b.wr = 0, 0
	b.hold(0)
}
