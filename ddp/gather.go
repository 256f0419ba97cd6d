package ddp

import "github.com/go-iwarp/iwarp/internal/fastcopy"

// gather is a list of pieces seen as one range of memory. It remembers where the
// last placement ended, so that placement in rising order does not walk the list
// from its start each time.
type gather struct {
	sg    [][]byte
	total uint64
	at    int    // index into sg
	start uint64 // offset of sg[at][0] in the range
}

func (g *gather) reset(sg [][]byte) {
	*g = gather{sg: sg, total: gatherLen(sg)}
}

// extend makes the range longer: sg begins with the pieces that were there.
func (g *gather) extend(sg [][]byte) {
	g.sg, g.total = sg, gatherLen(sg)
}

// place copies data to offset off. The caller has checked that it fits.
func (g *gather) place(off uint64, data []byte) {
	if off < g.start {
		g.at, g.start = 0, 0
	}
	for len(data) > 0 && g.at < len(g.sg) {
		piece := g.sg[g.at]
		if in := off - g.start; in < uint64(len(piece)) {
			n := fastcopy.Copy(piece[in:], data)
			// Rule: DDP-5.2-04
			data, off = data[n:], off+uint64(n)
		}
		if off-g.start >= uint64(len(piece)) {
			g.start += uint64(len(piece))
			g.at++
		}
	}
}

// fits reports whether n octets at off are within the range. Nothing overflows.
func fits(off, n, total uint64) bool { return off <= total && n <= total-off }

func gatherLen(sg [][]byte) uint64 {
	var total uint64
	for _, piece := range sg {
		total += uint64(len(piece))
	}
	return total
}
