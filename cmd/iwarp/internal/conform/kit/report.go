package kit

import (
	"cmp"
	_ "embed"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"
)

// Summary counts the results.
type Summary struct {
	Cases         int `json:"cases"`
	Pass          int `json:"pass"`
	Fail          int `json:"fail"`
	NotApplicable int `json:"not_applicable"`
	Inconclusive  int `json:"inconclusive"`
	Known         int `json:"known_failures"`
	NotRun        int `json:"not_run"`
}

// Summary counts the results of the run.
func (r *Report) Summary() Summary {
	return Summary{
		len(r.Results), r.Count(Pass), r.Count(Fail), r.Count(NotApplicable), r.Count(Inconclusive),
		r.Count(KnownFailure), r.Count(NotRun),
	}
}

// String is one line for people.
func (s Summary) String() string {
	text := fmt.Sprintf("%d cases: %d passed, %d failed, %d not applicable, %d inconclusive", s.Cases, s.Pass, s.Fail,
		s.NotApplicable, s.Inconclusive)
	if s.Known > 0 {
		text += fmt.Sprintf(", %d failed as known", s.Known)
	}
	if s.NotRun > 0 {
		text += fmt.Sprintf(", %d not run", s.NotRun)
	}
	return text
}

// Family is the part of the id before the first slash.
func (c *Case) Family() string {
	family, _, _ := strings.Cut(c.ID, "/")
	return family
}

// WriteText writes the report for people. Failures come first, those with the same cause together, with the rule, what
// is legal and what went over the wire in the first of them; then a line for each family, and the reasons of the other
// results that are no pass.
func (r *Report) WriteText(w io.Writer) error {
	if r.Gone != "" {
		fmt.Fprintf(w, "THE ENDPOINT HAS GONE: %s\n    under way: %s\n\n", r.Gone, strings.Join(r.InFlight, ", "))
	}
	for _, g := range r.reasons(Fail) {
		if err := g.first.WriteText(w); err != nil {
			return err
		}
		if len(g.ids) > 1 {
			fmt.Fprintf(w, "    the same cause in %d more: %s\n", len(g.ids)-1, shorten(g.ids[1:]))
		}
	}
	if r.Count(Fail) > 0 {
		fmt.Fprintln(w)
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FAMILY\tPASS\tFAIL\tN/A\tUNCLEAR")
	for _, f := range r.Families() {
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\n", f.Name, f.Pass, f.Fail, f.NotApplicable, f.Inconclusive)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for i := range r.Results {
		switch res := &r.Results[i]; {
		case res.Status == KnownFailure:
			fmt.Fprintf(w, "\nknown failure %s (%s): %s\n", res.Case.ID, res.Known, res.Reason)
		case res.Status == Pass && res.Known != "":
			fmt.Fprintf(w, "\nno failure any more: %s (%s)\n", res.Case.ID, res.Known)
		}
	}
	for _, status := range []Status{NotApplicable, Inconclusive, NotRun} {
		for _, g := range r.reasons(status) {
			fmt.Fprintf(w, "\n%v: %s\n", status, g.reason)
			fmt.Fprintf(w, "    %s\n", shorten(g.ids))
		}
	}
	if r.Kit != "" {
		fmt.Fprintf(w, "\nkit: %s", r.Kit)
	}
	_, err := fmt.Fprintf(w, "\n%v, in %v\n", r.Summary(), r.Time.Round(time.Millisecond))
	return err
}

// WriteText writes all that is known of one result.
func (r *Result) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\n%s %s: %s\n    rule: %s (%s)\n    sent: %s\n    legal: %s\n    %s\n",
		strings.ToUpper(r.Status.String()), r.Case.ID, r.Reason,
		r.Case.Rule, strings.Join(r.Case.Rules, ", "), r.Case.Sends, list(r.Case.Legal), strings.Join(r.Log, "\n    "))
	return err
}

func shorten(ids []string) string {
	const most = 6
	if len(ids) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
	}
	return strings.Join(ids, ", ")
}

// FamilySummary counts the results of one family.
type FamilySummary struct {
	Name string
	Summary
}

// Families counts by family, in the order of the cases.
func (r *Report) Families() []FamilySummary {
	var all []FamilySummary
	at := map[string]int{}
	for i := range r.Results {
		name := r.Results[i].Case.Family()
		if _, ok := at[name]; !ok {
			at[name] = len(all)
			all = append(all, FamilySummary{Name: name})
		}
		s := &all[at[name]].Summary
		s.Cases++
		switch r.Results[i].Status {
		case Pass:
			s.Pass++
		case Fail:
			s.Fail++
		case NotApplicable:
			s.NotApplicable++
		case Inconclusive:
			s.Inconclusive++
		case KnownFailure:
			s.Known++
		case NotRun:
			s.NotRun++
		}
	}
	return all
}

type reason struct {
	reason string
	ids    []string
	first  *Result
}

// numbers is what differs between reasons that are the same cause.
var numbers = regexp.MustCompile(`0x[0-9a-fA-F]+|\d+`)

// reasons groups the results with a status by their reason, whose numbers may differ.
func (r *Report) reasons(status Status) []reason {
	var all []reason
	at := map[string]int{}
	for i := range r.Results {
		res := &r.Results[i]
		if res.Status != status {
			continue
		}
		key := numbers.ReplaceAllString(res.Reason, "N")
		if _, ok := at[key]; !ok {
			at[key] = len(all)
			all = append(all, reason{reason: res.Reason, first: res})
		}
		g := &all[at[key]]
		g.ids = append(g.ids, res.Case.ID)
	}
	return all
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Props    []junitProp `xml:"properties>property,omitempty"`
	Cases    []junitCase `xml:"testcase"`
}

type junitProp struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Time    string       `xml:"time,attr"`
	Failure *junitDetail `xml:"failure,omitempty"`
	Skipped *junitDetail `xml:"skipped,omitempty"`
	Output  string       `xml:"system-out,omitempty"`
}

type junitDetail struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML: what is not applicable or
// inconclusive is skipped, with the reason.
func (r *Report) WriteJUnit(w io.Writer) error {
	sum := r.Summary()
	suite := junitSuite{
		Name: "iwarp conform " + r.Options.Role.String(), Tests: sum.Cases, Failures: sum.Fail,
		Skipped: sum.NotApplicable + sum.Inconclusive + sum.Known + sum.NotRun,
		Time:    seconds(r.Time), Stamp: r.Start.UTC().Format("2006-01-02T15:04:05"),
	}
	for _, p := range []junitProp{
		{"kit", r.Kit}, {"endpoint-gone", r.Gone}, {"in-flight", strings.Join(r.InFlight, " ")},
	} {
		if p.Value != "" {
			suite.Props = append(suite.Props, p)
		}
	}
	for i := range r.Results {
		res := &r.Results[i]
		c := junitCase{Class: "conform." + res.Case.Family(), Name: res.Case.ID, Time: seconds(res.Time)}
		switch res.Status {
		case Pass:
		case KnownFailure:
			c.Skipped = &junitDetail{Message: res.Status.String() + " (" + res.Known + "): " + res.Reason}
		case Fail:
			c.Failure = &junitDetail{
				res.Reason,
				fmt.Sprintf("rule: %s (%s)\nlegal: %s", res.Case.Rule, strings.Join(res.Case.Rules, ", "),
					list(res.Case.Legal)),
			}
			c.Output = strings.Join(res.Log, "\n")
		default:
			c.Skipped = &junitDetail{Message: res.Status.String() + ": " + res.Reason}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(junitSuites{Suites: []junitSuite{suite}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"join":  func(s []string) string { return strings.Join(s, ", ") },
	"class": func(s Status) string { return strings.ReplaceAll(s.String(), " ", "-") },
	"round": func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) },
}).Parse(page))

// WriteHTML writes the report as one page without scripts or anything from
// elsewhere. title says what was tested.
func (r *Report) WriteHTML(w io.Writer, title string) error {
	return pageTemplate.Execute(w,
		map[string]any{"Title": cmp.Or(title, "an endpoint"), "R": r, "Date": r.Start.UTC().Format(time.RFC3339)})
}
