package iwarptest

import (
	"sync"
	"time"
)

// deadline is one deadline of a connection. Its owner holds cond.L for every call
// and waits on cond, which sync.Cond makes durable inside a synctest bubble.
type deadline struct {
	cond    *sync.Cond
	timer   *time.Timer
	set     uint64 // counts calls, so that a stopped timer that fires is not heard
	expired bool
}

// setTo moves the deadline; the zero time removes it.
func (d *deadline) setTo(t time.Time) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.set++
	d.expired = false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 {
		d.expired = true
		d.cond.Broadcast()
		return
	}
	set := d.set
	d.timer = time.AfterFunc(left, func() {
		d.cond.L.Lock()
		defer d.cond.L.Unlock()
		if d.set == set {
			d.expired = true
			d.cond.Broadcast()
		}
	})
}

// stop forgets the deadline for good, so that no timer outlives the connection.
func (d *deadline) stop() { d.setTo(time.Time{}) }
