package iwarp

import (
	"fmt"
	"net"
	"os"
)

// What a constructor has not made, a nil pointer or the zero value of its type, returns an
// error from every method that has one, as package os does, and is refused in a
// configuration.

func notMade(what, by string) error {
	return fmt.Errorf("iwarp: %s is nil or was not made by %s: %w", what, by, os.ErrInvalid)
}

func (d *Device) made() error {
	if d == nil || d.table == nil {
		return notMade("Device", "NewDevice")
	}
	return nil
}

func (t *Tenant) made() error {
	if t == nil || t.dev == nil {
		return notMade("Tenant", "Device.NewTenant")
	}
	return nil
}

func (p *PD) made() error {
	if p == nil || p.dev == nil {
		return notMade("PD", "NewPD")
	}
	return nil
}

func (q *QP) made() error {
	if q == nil || q.dev == nil {
		return notMade("QP", "PD.NewQP")
	}
	return nil
}

func (q *CQ) made() error {
	if q == nil || q.tenant == nil {
		return notMade("CQ", "NewCQ")
	}
	return nil
}

func (q *SRQ) made() error {
	if q == nil || q.pd == nil {
		return notMade("SRQ", "PD.NewSRQ")
	}
	return nil
}

func (m *MR) made() error {
	if m == nil || m.region == nil {
		return notMade("MR", "NewMR")
	}
	return nil
}

func (c *Conn) made() error {
	if c == nil || c.stream == nil {
		return notMade("Conn", "Dial, Client, Accept or Server")
	}
	return nil
}

func (l *Listener) made() error {
	if l == nil || l.ll == nil {
		return notMade("Listener", "Listen")
	}
	return nil
}

func (r *ConnRequest) made() error {
	if r == nil || r.in == nil {
		return notMade("ConnRequest", "Listener.AcceptRequest or ServerRequest")
	}
	return nil
}

// below checks the connection that a program has given.
func below(nc net.Conn) error {
	if nc == nil {
		return fmt.Errorf("iwarp: the net.Conn is nil: %w", os.ErrInvalid)
	}
	return nil
}
