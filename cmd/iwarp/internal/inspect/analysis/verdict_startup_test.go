package analysis_test

import (
	"slices"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
	"github.com/go-iwarp/iwarp/iwarptest"
)

// startups are pairs of startup frames and the rules that they break. Frame 4 is the
// Request and frame 5 the Reply.
var startups = []struct {
	name     string
	req, rep []byte
	want     []broken
}{
	{
		name: "right, revision 1",
		req:  iwarptest.Request(0x40, 1, nil),
		rep:  iwarptest.Reply(0x40, 1, nil),
	},
	{
		name: "right, revision 2",
		req:  iwarptest.Request(0x50, 2, enhanced(0x8008, 0xc004)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(0x8004, 0x8008)),
	},
	{
		name: "reserved bits",
		req:  iwarptest.Request(0x41, 1, nil),
		rep:  iwarptest.Reply(0x42, 1, nil),
		want: []broken{
			{frame: 4, from: analysis.Initiator, rule: "MPA-7.1.1-13", at: 16},
			{frame: 5, from: analysis.Responder, rule: "MPA-7.1.1-13", at: 16},
		},
	},
	{
		name: "S in revision 1 is reserved",
		req:  iwarptest.Request(0x50, 1, nil),
		rep:  iwarptest.Reply(0x40, 1, nil),
		want: []broken{{frame: 4, from: analysis.Initiator, rule: "MPA-7.1.1-13", at: 16}},
	},
	{
		name: "R in a Request",
		req:  iwarptest.Request(0x60, 1, nil),
		rep:  iwarptest.Reply(0x40, 1, nil),
		want: []broken{{frame: 4, from: analysis.Initiator, rule: "MPA-7.1.1-11", at: 16}},
	},
	{
		name: "revisions differ",
		req:  iwarptest.Request(0x40, 1, nil),
		rep:  iwarptest.Reply(0x40, 2, nil),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA-7.1.1-15", at: 17}},
	},
	{
		name: "revision 3",
		req:  iwarptest.Request(0x40, 3, nil),
		rep:  iwarptest.Reply(0x60, 1, nil),
		want: []broken{{frame: 4, from: analysis.Initiator, rule: "MPA-7.1.1-14", at: 17}},
	},
	{
		name: "Private Data too long",
		req:  iwarptest.Request(0x40, 1, make([]byte, 513)),
		want: []broken{{frame: 4, from: analysis.Initiator, rule: "MPA-7.1.1-18", at: 18}},
	},
	{
		name: "no Reply but a Request",
		req:  iwarptest.Request(0x40, 1, nil),
		rep:  iwarptest.Request(0x40, 1, nil),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA-7.1.1-03", at: 0}},
	},
	{
		name: "no Reply but text",
		req:  iwarptest.Request(0x40, 1, nil),
		rep:  []byte("HTTP/1.1 400 Bad Request\r\n"),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA-7.1.1-03", at: 0}},
	},
	{
		name: "enhanced, the Reply not",
		req:  iwarptest.Request(0x50, 2, enhanced(8, 8)),
		rep:  iwarptest.Reply(0x40, 2, nil),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA2-10-01", at: 16}},
	},
	{
		name: "not enhanced, the Reply is",
		req:  iwarptest.Request(0x40, 2, nil),
		rep:  iwarptest.Reply(0x50, 2, enhanced(8, 8)),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA2-10-02", at: 16}},
	},
	{
		name: "A is not copied",
		req:  iwarptest.Request(0x50, 2, enhanced(0x8008, 0xc008)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(8, 8)),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA2-9.2-04", at: 20}},
	},
	{
		name: "B without A",
		req:  iwarptest.Request(0x50, 2, enhanced(0x4008, 8)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(8, 8)),
		want: []broken{{frame: 4, from: analysis.Initiator, rule: "MPA2-9.2-10", at: 20}},
	},
	{
		name: "A without RTR kinds",
		req:  iwarptest.Request(0x50, 2, enhanced(0x8008, 8)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(0x8008, 0x8008)),
		want: []broken{{frame: 4, from: analysis.Initiator, rule: "MPA2-9.2-02", at: 20}},
	},
	{
		name: "nothing wanted",
		req:  iwarptest.Request(0x50, 2, enhanced(0x3fff, 0x3fff)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(0x3fff, 0x3fff)),
		want: []broken{{frame: 4, from: analysis.Initiator, rule: "MPA2-10-03", at: 16}},
	},
	{
		name: "not negotiated, and answered",
		req:  iwarptest.Request(0x50, 2, enhanced(0x3fff, 8)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(8, 8)),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA2-9.1-12", at: 22}},
	},
	{
		name: "ORD not negotiated, and answered",
		req:  iwarptest.Request(0x50, 2, enhanced(8, 0x3fff)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(8, 8)),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA2-9.1-10", at: 20}},
	},
	{
		name: "ORD above the peer's IRD",
		req:  iwarptest.Request(0x50, 2, enhanced(4, 4)),
		rep:  iwarptest.Reply(0x50, 2, enhanced(4, 5)),
		want: []broken{{frame: 5, from: analysis.Responder, rule: "MPA2-9.1-03", at: 22}},
	},
}

func TestVerdictsOnStartup(t *testing.T) {
	for _, tt := range startups {
		out := ownOut()
		k := newTalk(out)
		k.open()
		k.send(0, tt.req)
		if tt.rep != nil {
			k.send(1, tt.rep)
		}
		k.close()
		all, _, err := events(t, out.b, nil)
		if err != nil || !slices.Equal(verdicts(all), tt.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", tt.name, err, verdicts(all), tt.want)
		}
	}
}
