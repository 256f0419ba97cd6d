package main

import (
	"regexp"
	"strings"
	"testing"
)

// A size is a dent where it is far below its neighbours in the ladder; with others beside it nothing is said.
func TestLine(t *testing.T) {
	var list []*result
	for _, size := range sizes[:4] {
		list = append(list, &result{Octets: size, Rate: 1e9 / float64(size)})
	}
	for i, want := range []string{"", "1.00", "1.00", ""} {
		if got := line(list, i); got != want {
			t.Errorf("size %d: %q, want %q", list[i].Octets, got, want)
		}
	}
	list[1].Rate /= 2
	if got := line(list, 1); got != "**0.50**" {
		t.Errorf("a dent is %q", got)
	}
	if got := line([]*result{list[0], list[2], list[3]}, 1); got != "" {
		t.Errorf("without its neighbour: %q", got)
	}
}

func TestJudge(t *testing.T) {
	var c checker
	for _, v := range []struct {
		value float64
		want  mark
		is    string
	}{
		{value: 1, want: mark{}, is: ""},
		{value: 0.9, want: mark{gate: 0.7, aim: 0.9}, is: "aim"},
		{value: 0.8, want: mark{gate: 0.7, aim: 0.9}, is: "gate"},
		{value: 0.6, want: mark{gate: 0.7, aim: 0.9}, is: "**missed**"},
		{value: 1.1, want: mark{gate: 1.2, aim: 1, low: true}, is: "gate"},
		{value: 1.3, want: mark{gate: 1.2, aim: 1, low: true}, is: "**missed**"},
	} {
		if got := c.judge("x", v.value, nil, v.want); got != v.is {
			t.Errorf("%v of %+v: %q, want %q", v.value, v.want, got, v.is)
		}
	}
	if c.missed != 2 || len(c.gates) != 5 {
		t.Errorf("%d missed of %d", c.missed, len(c.gates))
	}
}

// The rows have different names, which a regular expression chooses from.
func TestRows(t *testing.T) {
	names := map[string]bool{}
	add := func(name string) {
		if names[name] {
			t.Errorf("two rows %q", name)
		}
		names[name] = true
	}
	for _, list := range [][]row{loopbackRows, networkRowList} {
		for _, r := range list {
			add(fullName(r.at, r.name))
		}
	}
	for _, p := range pairList {
		add(fullName(p.at, p.name))
	}
	for _, p := range peerList {
		for _, size := range p.sizes {
			add(peerRow(&p, size))
		}
	}
	c := checker{rows: regexp.MustCompile("^MTU 1500:"), list: true}
	if c.wants("loopback: x") || c.wants("MTU 1500: Writes") {
		t.Error("a row is measured that is not wanted, or with -list")
	}
	c.list = false
	if !c.wants("MTU 1500: Writes") {
		t.Error("a wanted row is not measured")
	}
}

// A network's flags are those of its configuration.
func TestPlaceArgs(t *testing.T) {
	for p, want := range map[*place]string{
		&loopback:   "",
		&jumbo:      "--net=9000",
		&vethBare:   "--net=1500 --no-offloads",
		&vethKernel: "--net=1500 --steering=kernel",
	} {
		if got := strings.Join(p.args(), " "); got != want {
			t.Errorf("%s: %q, want %q", p.name, got, want)
		}
	}
}
