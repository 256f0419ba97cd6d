package stream

import (
	"sync"

	"github.com/go-iwarp/iwarp"
)

// spareReceives is for messages that are no data: grants and states. The peer has a few of them under way at most.
const spareReceives = 16

// grantEntries is the length of this end's list of grants, and so the parts that the peer may grant its ring in.
// rsockets have 2. More let a sender go on while its receiver reads.
const grantEntries = 8

// ringOffset is where the ring starts in the region: behind the list of grants.
const ringOffset = grantEntries * sgeLen

// endpoint is what a connection needs before startup: a queue pair, its receives, and the region that the peer writes
// into.
type endpoint struct {
	cfg   Config
	pd    *iwarp.PD
	ownPD bool
	qp    *iwarp.QP
	mr    *iwarp.MR
	recvs []byte // the receives, msgLen octets each
	wrs   []iwarp.RecvWR
	ring  []byte
	list  []byte // the peer's grants
	buf   []byte // list and ring
}

// newEndpoint makes an endpoint whose receives are posted.
func newEndpoint(cfg *Config) (e *endpoint, err error) {
	e = &endpoint{cfg: *cfg, pd: cfg.Conn.PD}
	defer func() {
		if err != nil {
			e.release()
		}
	}()
	if e.pd == nil {
		dev := cfg.Conn.Device
		if dev == nil {
			if dev, err = iwarp.NewDevice(nil); err != nil {
				return e, err
			}
		}
		if e.pd, err = dev.NewPD(); err != nil {
			return e, err
		}
		e.ownPD = true
	}
	depth := cfg.Credits + spareReceives
	if e.qp, err = e.pd.NewQP(&iwarp.QPConfig{SendDepth: sendDepth, RecvDepth: depth}); err != nil {
		return e, err
	}
	e.buf = getBuffer(ringOffset + cfg.RecvBuffer)
	e.list, e.ring = e.buf[:ringOffset], e.buf[ringOffset:]
	clear(e.list)
	if e.mr, err = e.pd.NewMR(e.buf, iwarp.RemoteWrite, &iwarp.MROptions{QP: e.qp}); err != nil {
		return e, err
	}
	e.recvs = make([]byte, depth*msgLen)
	e.wrs = make([]iwarp.RecvWR, depth)
	sg := make([][]byte, depth)
	for i := range e.wrs {
		sg[i] = e.recvs[i*msgLen:][:msgLen]
		e.wrs[i] = iwarp.RecvWR{ID: uint64(i), SG: sg[i : i+1]}
	}
	return e, e.qp.PostRecv(e.wrs...)
}

// half is the octets that are granted at a time.
func (e *endpoint) half() int { return len(e.ring) / 2 }

// privateData is what this end tells the peer.
func (e *endpoint) privateData() []byte {
	at, stag := e.mr.Remote().TO, uint32(e.mr.STag())
	d := privateData{
		credits: uint16(e.cfg.Credits),
		grants:  sge{at, stag, grantEntries},
		first:   sge{at + ringOffset, stag, uint32(e.half())},
	}
	return d.AppendTo(nil)
}

// release gives back what the endpoint has of the device. The memory stays.
func (e *endpoint) release() {
	if e.mr != nil {
		_ = e.mr.Close()
	}
	if e.qp != nil {
		_ = e.qp.Close()
	}
	if e.ownPD {
		_ = e.pd.Close()
	}
}

// free gives the memory back. Nobody may use it any more.
func (e *endpoint) free() {
	putBuffer(e.buf)
	e.buf, e.ring, e.list = nil, nil, nil
}

// buffers keeps the memory of connections that have ended for the next ones, of the default size only.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, ringOffset+defaultRecvBuffer)
	return &b
}}

func getBuffer(n int) []byte {
	if n == ringOffset+defaultRecvBuffer {
		return *buffers.Get().(*[]byte)
	}
	return make([]byte, n)
}

func putBuffer(b []byte) {
	if len(b) == ringOffset+defaultRecvBuffer {
		buffers.Put(&b)
	}
}
