package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp/live"
)

// view is what the table is made of: a snapshot, and the one before.
type view struct {
	now, before *live.Snapshot
	at          time.Time // by this end's clock, as the program's may say anything
	passed      float64   // seconds between the two; 0: there is one
}

func (v *view) take(s *live.Snapshot, at time.Time) {
	v.before, v.passed = v.now, at.Sub(v.at).Seconds()
	v.now, v.at = s, at
	// A program that was started anew counts from 0.
	if v.before == nil || v.before.PID != s.PID || v.passed <= 0 {
		v.before, v.passed = nil, 0
	}
}

// row is a connection, or all of them, with rates a second or counters.
type row struct {
	live.Conn
	traffic  [6]float64
	activity float64
}

// counters are the columns.
func counters(t *live.Traffic) [6]uint64 {
	return [...]uint64{
		t.PayloadSent, t.PayloadReceived, t.MessagesSent, t.MessagesReceived, t.ReadsServed, t.AtomicsServed,
	}
}

// traffic is what a row shows: counters, or their rate since before.
func (v *view) traffic(now, before *live.Traffic) (r [6]float64) {
	n, b := counters(now), counters(before)
	for i := range r {
		switch {
		case v.passed == 0:
			r[i] = float64(n[i])
		case n[i] > b[i]:
			r[i] = float64(n[i]-b[i]) / v.passed
		}
	}
	return r
}

// rows are the connections, the busiest first.
func (v *view) rows() []row {
	before := make(map[uint64]*live.Traffic)
	if v.before != nil {
		for i := range v.before.Conns {
			before[v.before.Conns[i].ID] = &v.before.Conns[i].Traffic
		}
	}
	rows := make([]row, 0, len(v.now.Conns))
	for _, c := range v.now.Conns {
		b := before[c.ID]
		if b == nil {
			b = new(live.Traffic) // new since the last look, so that all of it is
		}
		r := row{Conn: c, traffic: v.traffic(&c.Traffic, b)}
		for _, x := range r.traffic {
			r.activity += x
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.activity, a.activity), cmp.Compare(a.ID, b.ID))
	})
	return rows
}

const (
	peerWidth = 22 // of an IPv4 address and port
	format    = "%6s  %-22s %6s %7s %7s %9s %8s %8s %9s %6s"
	fixed     = 6 // lines that are no connections
)

// lines are the table, for a terminal of so many columns and rows; 0 is no bound.
func (v *view) lines(width, height int) []string {
	s, t := v.now, v.now.Totals
	unit := ui.Word(v.passed > 0, "/s", "")
	lines := []string{
		fmt.Sprintf("%s, PID %d, %s: %s", clip(s.Program, 40), s.PID, s.Time.Format(time.DateTime),
			ui.Plural(max(t.Live, 0), "connection")),
		fmt.Sprintf("since its start: %s, %d ended well, %d in error; startups: %d failed, %d refused",
			ui.Plural(t.Connections, "connection"), t.EndedGracefully, t.EndedInError, t.StartupsFailed,
			t.StartupsRefused),
	}
	if e := errorsLine(s.Errors); e != "" {
		lines = append(lines, e)
	}
	lines = append(lines, "", fmt.Sprintf(format, "CONN", "PEER", "AGE", "OUT"+unit, "IN"+unit,
		"MSGOUT"+unit, "MSGIN"+unit, "READS"+unit, "ATOMIC"+unit, "RESENT"))
	var before live.Traffic
	if v.before != nil {
		before = v.before.Totals.Traffic
	}
	lines = append(lines, line("all", "", "", v.traffic(&t.Traffic, &before), ""))
	rows := v.rows()
	left := max(s.LeftOut, 0)
	if most := height - fixed - 2; height > 0 && len(rows) > max(most, 1) {
		left += len(rows) - max(most, 1)
		rows = rows[:max(most, 1)]
	}
	for _, r := range rows {
		old := age(s.Time.Sub(r.Began))
		lines = append(lines, line(fmt.Sprint(r.ID), r.Remote, old, r.traffic, fmt.Sprint(r.Retransmits)))
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("        and %s more", ui.Plural(left, "connection")))
	}
	for i, l := range lines {
		if lines[i] = strings.TrimRight(ui.Printable(l), " "); width > 0 {
			lines[i] = clip(lines[i], width)
		}
	}
	return lines
}

func line(id, peer, age string, n [6]float64, resent string) string {
	return fmt.Sprintf(format, id, clip(ui.Printable(peer), peerWidth), age, amount(n[0])+"B",
		amount(n[1])+"B", amount(n[2]), amount(n[3]), amount(n[4]), amount(n[5]), resent)
}

// errorsLine says how connections ended in error.
func errorsLine(list []live.Errors) string {
	var b strings.Builder
	for i, e := range list {
		if i == 4 {
			b.WriteString(" …")
			break
		}
		fmt.Fprintf(&b, "%s%d × %s (%s)", ui.Word(i == 0, "errors: ", ", "), e.Count, clip(e.Code, 10), clip(e.By, 10))
	}
	return b.String()
}

// amount is a number in four characters or so, by powers of 1000.
func amount(f float64) string {
	units := " kMGTPE"
	i := 0
	for f >= 999.5 && i < len(units)-1 {
		f /= 1000
		i++
	}
	digits := 0
	if f < 9.95 && i > 0 || f > 0 && f < 9.95 && f != float64(int(f)) {
		digits = 1
	}
	return fmt.Sprintf("%.*f%s", digits, f, strings.TrimSpace(units[i:i+1]))
}

// age is a duration in its largest two units.
func age(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	h, m, s := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case h >= 48:
		return fmt.Sprintf("%dd%dh", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%dh%dm", h, m)
	case m > 0:
		return fmt.Sprintf("%dm%ds", m, s)
	}
	return fmt.Sprintf("%ds", s)
}

// clip cuts s to n characters.
func clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:max(n-1, 0)]) + "…"
}

// text joins lines, each with end behind it; the heading of the table stands out.
func text(out *ui.Output, lines []string, end string) string {
	var b strings.Builder
	for _, l := range lines {
		if strings.HasPrefix(l, "  CONN") {
			l = out.Bold(l)
		}
		b.WriteString(l + end + "\n")
	}
	return b.String()
}
