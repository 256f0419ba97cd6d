package kit_test

import (
	"bytes"
	"encoding/xml"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/conform/kit"
)

var update = flag.Bool("update", false, "write testdata/cases.txt anew")

// The list of cases is what testdata/cases.txt has: an id is not changed or
// dropped by accident, since people keep lists of them.
func TestCaseList(t *testing.T) {
	var b strings.Builder
	for _, c := range kit.Cases() {
		b.WriteString(c.String() + "\n")
	}
	const name = "testdata/cases.txt"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	wantLines, gotLines := strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")
	for i := range max(len(wantLines), len(gotLines)) {
		if i >= len(wantLines) || i >= len(gotLines) || wantLines[i] != gotLines[i] {
			t.Fatalf("%s differs from line %d on (%d lines, want %d): run go test ./cmd/iwarp/internal/conform/kit "+
				"-run TestCaseList -update",
				name, i+1, len(gotLines), len(wantLines))
		}
	}
}

// Each case is in the report of the mutants, as one that can fail or one that has not
// been shown to: go run ./tools/mutants -conform -report docs/conform-mutants.md
func TestEveryCaseIsProved(t *testing.T) {
	b, err := os.ReadFile("../../../../../docs/conform-mutants.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, id := range regexp.MustCompile(`[a-z]+/[A-Za-z0-9-]+`).FindAllString(string(b), -1) {
		listed[id] = true
	}
	for _, c := range kit.Cases() {
		if !listed[c.ID] {
			t.Errorf("%s is not in the report: is there a mutant that makes it fail?", c.ID)
		}
	}
}

// Each case is told apart, has a rule that exists, and says all that a reader
// needs.
func TestCases(t *testing.T) {
	table, err := os.ReadFile("../../../../../docs/requirements.tsv")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		id, _, _ := strings.Cut(line, "\t")
		known[id] = true
	}
	reports, err := os.ReadFile("../../../../../docs/conform.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range regexp.MustCompile(`(?m)^\| (R\d+) \|`).FindAllStringSubmatch(string(reports), -1) {
		known[r[1]] = true
	}
	seen := map[string]bool{}
	counts := map[kit.Role]int{}
	for _, c := range kit.Cases() {
		if seen[c.ID] {
			t.Errorf("%s: twice", c.ID)
		}
		seen[c.ID] = true
		if len(c.Rules) == 0 || c.Rule == "" || c.Sends == "" || c.Roles == 0 || !strings.Contains(c.ID, "/") {
			t.Errorf("%s: incomplete: %+v", c.ID, c)
		}
		for _, r := range c.Rules {
			if !known[r] {
				t.Errorf("%s: rule %s is neither in docs/requirements.tsv nor in docs/conform.md", c.ID, r)
			}
		}
		if len(c.Legal) == 0 && !strings.Contains(c.ID, "reset") && c.ID != "teardown/unread-responses" {
			t.Errorf("%s: no answer is legal", c.ID)
		}
		for _, role := range []kit.Role{kit.Initiator, kit.Responder} {
			if c.Roles&role != 0 {
				counts[role]++
			}
		}
	}
	t.Logf("%d cases, %d as initiator, %d as responder", len(seen), counts[kit.Initiator], counts[kit.Responder])
	if counts[kit.Initiator] < 300 || counts[kit.Responder] < 300 {
		t.Errorf("too few cases: %v", counts)
	}
}

// Cases are chosen by role, pattern and level.
func TestSelect(t *testing.T) {
	for _, c := range []struct {
		name string
		opts kit.Options
		ok   func(*kit.Case) bool
	}{
		{name: "initiator", opts: kit.Options{}, ok: func(c *kit.Case) bool { return c.Roles&kit.Initiator != 0 }},
		{
			name: "responder", opts: kit.Options{Role: kit.Responder},
			ok: func(c *kit.Case) bool { return c.Roles&kit.Responder != 0 },
		},
		{name: "gentle", opts: kit.Options{Gentle: true}, ok: func(c *kit.Case) bool { return c.Level != kit.Crasher }},
		{name: "run by id", opts: kit.Options{Run: "^crc/"}, ok: func(c *kit.Case) bool { return c.Family() == "crc" }},
		{
			name: "run by rule", opts: kit.Options{Run: "^R40$"},
			ok: func(c *kit.Case) bool { return strings.Contains(strings.Join(c.Rules, " "), "R40") },
		},
		{name: "skip", opts: kit.Options{Skip: "^crc/"}, ok: func(c *kit.Case) bool { return c.Family() != "crc" }},
	} {
		cases, err := kit.Select(&c.opts)
		if err != nil || len(cases) == 0 {
			t.Fatalf("%s: %d cases, %v", c.name, len(cases), err)
		}
		for _, x := range cases {
			if !c.ok(x) {
				t.Errorf("%s: %s was chosen", c.name, x.ID)
			}
		}
	}
	for _, o := range []kit.Options{{Run: "("}, {Skip: "("}} {
		if _, err := kit.Select(&o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// A report in all its forms: the counts agree, and what people need to know is in.
func TestReport(t *testing.T) {
	cases := kit.Cases()
	r := &kit.Report{
		Start: time.Unix(1e9, 0), Time: 1234 * time.Millisecond, Options: kit.Options{Role: kit.Initiator},
		Results: []kit.Result{
			{Case: cases[0], Status: kit.Pass, Time: time.Millisecond},
			{Case: cases[1], Status: kit.Fail, Reason: "it <broke>", Log: []string{"-> octets"}},
			{Case: cases[2], Status: kit.NotApplicable, Reason: "no Markers"},
			{Case: cases[3], Status: kit.Inconclusive, Reason: "who knows"},
		},
	}
	if s := r.Summary(); s != (kit.Summary{Cases: 4, Pass: 1, Fail: 1, NotApplicable: 1, Inconclusive: 1}) {
		t.Errorf("summary %+v", s)
	}
	var text, junit, html bytes.Buffer
	for _, err := range []error{r.WriteText(&text), r.WriteJUnit(&junit), r.WriteHTML(&html, "")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"FAIL " + cases[1].ID + ": it <broke>", "-> octets", "not applicable: no Markers", "inconclusive: who knows",
		"4 cases: 1 passed, 1 failed, 1 not applicable, 1 inconclusive",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, &text)
		}
	}
	if !strings.Contains(html.String(), "it &lt;broke&gt;") || !strings.Contains(html.String(), cases[3].ID) {
		t.Errorf("HTML:\n%s", &html)
	}
	var suites struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Skipped  int `xml:"skipped,attr"`
			Cases    []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(junit.Bytes(), &suites); err != nil {
		t.Fatal(err)
	}
	s := suites.Suites[0]
	if s.Tests != 4 || s.Failures != 1 || s.Skipped != 2 || s.Cases[1].Failure.Message != "it <broke>" {
		t.Errorf("JUnit:\n%s", &junit)
	}
}
