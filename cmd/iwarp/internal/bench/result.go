package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// benchRound is one sample, and the baseline's that followed it.
type benchRound struct{ ours, base outcome }

// figures are what one sample, or the median of some, comes to.
type figures struct {
	GBps   float64 `json:"gb_per_s,omitempty"`
	CPU    float64 `json:"cpu_s_per_gb,omitempty"`
	Calls  float64 `json:"syscalls_per_gb,omitempty"`
	Median float64 `json:"median_ns,omitempty"`
	P99    float64 `json:"p99_ns,omitempty"`
	P999   float64 `json:"p999_ns,omitempty"`
	CPUOp  float64 `json:"cpu_ns,omitempty"` // of both ends, for what Median is the time of
	Rate   float64 `json:"messages_per_s,omitempty"`
	Jain   float64 `json:"jain,omitempty"`
	Memory float64 `json:"memory_per_conn,omitempty"`
}

// roundFigures are those of a round.
type roundFigures struct {
	figures
	Baseline *figures `json:"baseline,omitempty"`
	Ratio    float64  `json:"ratio,omitempty"`
}

// benchResult is what has been measured with one size.
type benchResult struct {
	benchSpec
	crc, markers bool
	segment      int
	mulpdu       int
	huge         bool // the messages lie in huge pages
	network      *netResult
	memory       float64 // octets a connection, both ends
	baseMemory   float64
	trip         time.Duration // a round trip to an end that is far away
	limitedBy    benchLimit
	ord          int
	align        ui.Align
	fpdus, whole uint64 // sent in all samples, and of those whole in one TCP segment

	rounds []roundFigures
	allocs []float64 // per operation
	rate   []float64 // messages a second
	times  []int64   // one-way, with --lat; all samples

	ours, base             figures
	ratio, minimum, most   float64
	cpuRatio, callRatio    float64
	baseline, headerBefore bool
}

// add takes in a round of count operations a connection.
func (r *benchResult) add(count uint64, round benchRound) {
	f := roundFigures{figures: r.figuresOf(count, &round.ours)}
	ops := r.operations(count)
	r.allocs = append(r.allocs, float64(round.ours.usage.Allocs)/ops)
	r.rate = append(r.rate, r.rateOf(count, &round.ours))
	r.fpdus += round.ours.usage.FPDUs
	r.whole += round.ours.usage.Whole
	for _, t := range round.ours.times {
		r.times = append(r.times, t/r.ways())
	}
	if round.base.took > 0 {
		base := r.figuresOf(count, &round.base)
		f.Baseline = &base
		f.Ratio = f.GBps / base.GBps
		if r.Lat {
			f.Ratio = f.Median / base.Median
		}
	}
	r.rounds = append(r.rounds, f)
}

// ways is how many ways the time of an operation covers: there and back.
func (r *benchResult) ways() int64 {
	if r.Op.asks() {
		return 1
	}
	return 2
}

// operations is the number of all connections and directions together.
func (r *benchResult) operations(count uint64) float64 {
	n := float64(count) * float64(r.Conns)
	if r.Bidi {
		n *= 2
	}
	return n
}

// rateOf is how many messages there were a second.
func (r *benchResult) rateOf(count uint64, o *outcome) float64 {
	n := r.operations(count)
	if r.Lat {
		n *= float64(r.ways())
	}
	return n / o.took.Seconds()
}

func (r *benchResult) figuresOf(count uint64, o *outcome) figures {
	gb := r.operations(count) * float64(r.Size) / 1e9
	if r.Lat {
		ways := float64(r.ways())
		times := slices.Sorted(slices.Values(o.times))
		at := func(q float64) float64 { return float64(quantile(times, q)) / ways }
		return figures{
			Median: at(0.5), P99: at(0.99), P999: at(0.999), CPUOp: float64(o.usage.CPU) / r.operations(count) / ways,
			Rate: r.rateOf(count, o), Jain: o.jain,
		}
	}
	return figures{
		GBps: gb / o.took.Seconds(), CPU: o.usage.CPU.Seconds() / gb, Calls: float64(o.usage.Calls) / gb,
		Rate: r.rateOf(count, o), Jain: o.jain,
	}
}

// finish computes the medians.
func (r *benchResult) finish(baseline bool) {
	r.baseline = baseline
	slices.Sort(r.times)
	r.ours = medians(r.rounds, func(f *roundFigures) *figures { return &f.figures })
	r.ours.Memory = r.memory
	if !baseline {
		return
	}
	r.base = medians(r.rounds, func(f *roundFigures) *figures { return f.Baseline })
	r.base.Memory = r.baseMemory
	ratios := collect(r.rounds, func(f *roundFigures) float64 { return f.Ratio })
	r.ratio, r.minimum, r.most = median(ratios), slices.Min(ratios), slices.Max(ratios)
	r.cpuRatio = median(collect(r.rounds, func(f *roundFigures) float64 { return f.CPU / f.Baseline.CPU }))
	r.callRatio = median(collect(r.rounds, func(f *roundFigures) float64 { return f.Calls / f.Baseline.Calls }))
}

func medians(rounds []roundFigures, of func(*roundFigures) *figures) figures {
	return figures{
		GBps:   median(collect(rounds, func(f *roundFigures) float64 { return of(f).GBps })),
		CPU:    median(collect(rounds, func(f *roundFigures) float64 { return of(f).CPU })),
		Calls:  median(collect(rounds, func(f *roundFigures) float64 { return of(f).Calls })),
		Median: median(collect(rounds, func(f *roundFigures) float64 { return of(f).Median })),
		P99:    median(collect(rounds, func(f *roundFigures) float64 { return of(f).P99 })),
		P999:   median(collect(rounds, func(f *roundFigures) float64 { return of(f).P999 })),
		CPUOp:  median(collect(rounds, func(f *roundFigures) float64 { return of(f).CPUOp })),
		Rate:   median(collect(rounds, func(f *roundFigures) float64 { return of(f).Rate })),
		Jain:   median(collect(rounds, func(f *roundFigures) float64 { return of(f).Jain })),
	}
}

func collect(rounds []roundFigures, f func(*roundFigures) float64) []float64 {
	list := make([]float64, len(rounds))
	for i := range rounds {
		list[i] = f(&rounds[i])
	}
	return list
}

// median of an even number is the mean of the middle two; 0 stands for what could
// not be measured.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(list))
	m := (s[(len(s)-1)/2] + s[len(s)/2]) / 2
	if math.IsNaN(m) || math.IsInf(m, 0) {
		return 0
	}
	return m
}

// quantile of a sorted list.
func quantile(sorted []int64, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// bucket is a bar of the histogram.
type bucket struct {
	Below int64 `json:"below_ns"`
	Count int   `json:"count"`
}

// histogram sorts the times into buckets of about 9 %: eight to a doubling.
func (r *benchResult) histogram() (list []bucket) {
	at := 0
	for exp := 0.0; at < len(r.times); exp++ {
		below := int64(math.Ceil(math.Pow(2, exp/8)))
		from := at
		for at < len(r.times) && r.times[at] < below {
			at++
		}
		if at > from {
			list = append(list, bucket{below, at - from})
		}
	}
	return list
}

// aligned is the share of the FPDUs that lie whole in one TCP segment.
func (r *benchResult) aligned() float64 {
	if r.fpdus == 0 {
		return 0
	}
	return float64(r.whole) / float64(r.fpdus)
}

func (r *benchResult) EventKind() string { return "result" }

// MarshalJSON implements json.Marshaler.
func (r *benchResult) MarshalJSON() ([]byte, error) {
	type latency struct {
		Min       int64    `json:"min_ns"`
		Median    int64    `json:"median_ns"`
		P99       int64    `json:"p99_ns"`
		P999      int64    `json:"p999_ns"`
		Max       int64    `json:"max_ns"`
		CPU       float64  `json:"cpu_ns"`
		Histogram []bucket `json:"histogram"`
	}
	type bandwidth struct {
		GBps  float64 `json:"gb_per_s"`
		Min   float64 `json:"gb_per_s_min"`
		Max   float64 `json:"gb_per_s_max"`
		CPU   float64 `json:"cpu_s_per_gb"`
		Calls float64 `json:"syscalls_per_gb"`
	}
	type comparison struct {
		Ratio     float64  `json:"ratio"`
		Min       float64  `json:"ratio_min"`
		Max       float64  `json:"ratio_max"`
		CPURatio  float64  `json:"cpu_ratio,omitempty"`
		CallRatio float64  `json:"syscall_ratio,omitempty"`
		Baseline  *figures `json:"baseline"`
	}
	e := struct {
		Op         benchOp      `json:"op"`
		Octets     int          `json:"octets"`
		Depth      int          `json:"depth"`
		Conns      int          `json:"conns"`
		Bidi       bool         `json:"bidi"`
		Latency    bool         `json:"latency"`
		Progress   progressMode `json:"progress"`
		CRC        bool         `json:"crc"`
		Markers    bool         `json:"markers"`
		Segment    int          `json:"segment"`
		MULPDU     int          `json:"mulpdu"`
		Congestion string       `json:"congestion"`
		HugePages  bool         `json:"huge_pages"`
		Buffered   bool         `json:"buffered"`
		Align      string       `json:"align"`
		Aligned    float64      `json:"fpdus_aligned"`
		Samples    int          `json:"samples"`
		Allocs     float64      `json:"allocs_per_op"`
		Rate       float64      `json:"messages_per_s"`
		*bandwidth
		*latency
		*comparison
		Jain   float64        `json:"jain,omitempty"`
		Memory float64        `json:"memory_per_conn,omitempty"`
		Trip   int64          `json:"round_trip_ns,omitempty"`
		Limit  benchLimit     `json:"limited_by,omitempty"`
		Net    *netResult     `json:"net,omitempty"`
		Rounds []roundFigures `json:"rounds"`
	}{
		Op: r.Op, Octets: r.Size, Depth: r.Depth, Conns: r.Conns, Bidi: r.Bidi, Latency: r.Lat, Progress: r.Progress,
		CRC: r.crc, Markers: r.markers, Segment: r.segment, MULPDU: r.mulpdu, Congestion: r.Congestion,
		HugePages: r.huge, Buffered: r.Buffered,
		Align: r.align.String(), Aligned: r.aligned(), Samples: len(r.rounds), Allocs: median(r.allocs),
		Rate: median(r.rate), Jain: r.ours.Jain, Memory: r.memory, Trip: int64(r.trip), Limit: r.limitedBy,
		Net: r.network, Rounds: r.rounds,
	}
	if r.Lat {
		e.latency = &latency{
			Min: quantile(r.times, 0), Median: quantile(r.times, 0.5), P99: quantile(r.times, 0.99),
			P999: quantile(r.times, 0.999),
			Max:  quantile(r.times, 1), CPU: r.ours.CPUOp, Histogram: r.histogram(),
		}
	} else {
		all := collect(r.rounds, func(f *roundFigures) float64 { return f.GBps })
		e.bandwidth = &bandwidth{r.ours.GBps, slices.Min(all), slices.Max(all), r.ours.CPU, r.ours.Calls}
	}
	if r.baseline {
		e.comparison = &comparison{r.ratio, r.minimum, r.most, r.cpuRatio, r.callRatio, &r.base}
	}
	return json.Marshal(e)
}

// Text is the result's lines of the table, below a header if the result is the
// first of its kind.
func (r *benchResult) Text() string {
	var b strings.Builder
	if r.headerBefore {
		pages := ""
		if r.huge {
			pages = "huge pages, "
		}
		fmt.Fprintf(&b, "%s, CRC %s, frames of at most %s, alignment %s, congestion control %s, %s%s; medians\n",
			r.title(), onOffWord(r.crc),
			ui.Plural(uint64(r.mulpdu), "octet"), r.align, orUnknown(r.Congestion), pages, ui.Plural(uint64(
				len(r.rounds),
			),
				"sample"))
	}
	if n := r.network; n != nil && (r.headerBefore || n.Void > 0 || n.Retransmissions > 0) {
		b.WriteString(n.Text() + "\n")
	}
	if r.Lat {
		r.latencyText(&b)
	} else {
		r.bandwidthText(&b)
	}
	r.manyText(&b)
	b.WriteString(r.limitText())
	return strings.TrimSuffix(b.String(), "\n")
}

func (r *benchResult) bandwidthText(b *strings.Builder) {
	if r.headerBefore {
		fmt.Fprintf(b, "%9s %8s %13s %11s %9s %9s %9s %7s", "size", "GB/s", "min..max", "messages/s", "CPU s/GB",
			"allocs/op", "calls/GB", "aligned")
		if r.baseline {
			fmt.Fprintf(b, " | %8s %6s %11s %6s %6s", "TCP GB/s", "ratio", "min..max", "CPU", "calls")
		}
		b.WriteByte('\n')
	}
	all := collect(r.rounds, func(f *roundFigures) float64 { return f.GBps })
	fmt.Fprintf(b, "%9s %8.3f %13s %11s %9.3f %9.2f %9.0f %7.3f", amountShort(r.Size), r.ours.GBps,
		fmt.Sprintf("%.2f..%.2f", slices.Min(all), slices.Max(all)), count(median(r.rate)), r.ours.CPU, median(
			r.allocs,
		), r.ours.Calls, r.aligned())
	if r.baseline {
		fmt.Fprintf(b, " | %8.3f %6.2f %11s %6.2f %6.2f", r.base.GBps, r.ratio,
			fmt.Sprintf("%.2f..%.2f", r.minimum, r.most), r.cpuRatio, r.callRatio)
	}
	b.WriteByte('\n')
}

func (r *benchResult) latencyText(b *strings.Builder) {
	what := "half a round trip"
	if r.Op.asks() {
		what = "from request to data"
	}
	us := func(q float64) string {
		return fmt.Sprintf("%.2f", float64(quantile(r.times, q))/float64(time.Microsecond))
	}
	fmt.Fprintf(b,
		"%s: %s in us: min %s, median %s, 99 %% %s, 99.9 %% %s, max %s; processor time %.2f; %.2f allocations an "+
			"operation\n",
		amountShort(r.Size), what, us(0), us(0.5), us(0.99), us(0.999), us(1), r.ours.CPUOp/1e3, median(r.allocs))
	if r.baseline {
		fmt.Fprintf(b,
			"plain TCP: median %.2f, 99 %% %.2f, 99.9 %% %.2f, processor time %.2f; ratio %.3f (%.3f..%.3f)\n",
			r.base.Median/1e3, r.base.P99/1e3, r.base.P999/1e3, r.base.CPUOp/1e3, r.ratio, r.minimum, r.most)
	}
	list := r.histogram()
	most := 0
	for _, h := range list {
		most = max(most, h.Count)
	}
	for _, h := range list {
		if h.Count*1000 >= len(r.times) { // at least 0.1 %
			fmt.Fprintf(b, "  below %9.2f us %6.2f %% %s\n", float64(h.Below)/1e3,
				100*float64(h.Count)/float64(len(r.times)),
				strings.Repeat("#", (h.Count*50+most-1)/most))
		}
	}
}

// manyText is what several connections have besides.
func (r *benchResult) manyText(b *strings.Builder) {
	if r.Conns == 1 {
		return
	}
	line := func(name string, f *figures) {
		fmt.Fprintf(b, "%s: %s messages/s", name, count(f.Rate))
		if f.Jain > 0 {
			fmt.Fprintf(b, ", fairness %.3f", f.Jain)
		}
		if f.Memory > 0 {
			fmt.Fprintf(b, ", %.1f KiB of memory of both ends a connection", f.Memory/1024)
		}
		b.WriteByte('\n')
	}
	line(ui.Plural(uint64(r.Conns), "connection"), &r.ours)
	if r.baseline {
		line("plain TCP", &r.base)
	}
}

func onOffWord(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// amountShort is amount without a space.
func amountShort(n int) string {
	if n < 1<<10 {
		return fmt.Sprint(n)
	}
	return strings.ReplaceAll(ui.Amount(n), " ", "")
}

// count returns a large number in thousands or millions.
func count(f float64) string {
	switch {
	case f >= 1e6:
		return fmt.Sprintf("%.3f M", f/1e6)
	case f >= 1e4:
		return fmt.Sprintf("%.1f k", f/1e3)
	}
	return fmt.Sprintf("%.0f", f)
}

// benchProgress is the line that shows how far a measurement is.
type benchProgress struct {
	out   *ui.Output
	title string
	total int
}

func (p *benchProgress) show(done int) {
	if p.out.Terminal && !p.out.JSON {
		p.out.Printf("\r   %-50s sample %d of %d ", p.title, done, p.total)
	}
}

func (p *benchProgress) clear() {
	if p.out.Terminal && !p.out.JSON {
		p.out.Printf("\r%s\r", strings.Repeat(" ", ui.TextWidth+3))
	}
}
