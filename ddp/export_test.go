package ddp

// SetNextMSN moves a queue to an MSN, to see it wrap.
func (r *Receiver) SetNextMSN(qn, msn uint32) { r.queues.get(qn).next = msn }

// Indices lists the index of every entry of the table.
func (t *Table) Indices() []uint32 {
	var out []uint32
	slots := t.slots.Load()
	for i := range slots.entries {
		if r := slots.entries[i].Load(); r != nil && r != tombstone {
			out = append(out, r.index)
		}
	}
	return out
}

// Slots is the size of the hash table.
func (t *Table) Slots() int { return len(t.slots.Load().entries) }

// Share gives the region's guard as many locks as on a machine with many cores.
func (r *Region) Share() { r.guard.more = make([]stripe, maxStripes) }

// SetSequence sets the MSN given last.
func SetSequence(s *Sequence, given uint32) { s.given = given }

// SmallTable is a table whose indices have so few bits that it can be filled.
func SmallTable(bits int) *Table {
	t := NewTable(1<<bits - 1)
	t.mask = 1<<bits - 1
	return t
}

// Bytes is the region's buffer.
func (r *Region) Bytes() []byte { return r.buf }

// Held is the region that the receiver keeps locked, nil if there is none.
func (r *Receiver) Held() *Region { return r.held.region }
