package advert

import (
	"encoding/hex"
	"testing"
)

// The octets that docs/conform.md lists.
func TestAdvert(t *testing.T) {
	a := Advert{RecvDepth: 16, RecvSize: 4096, ID: 7, PDLen: 3, PDCRC: 0x01020304}
	a.Regions[Read] = Region{Kind: Read, STag: 0x100, TO: 0x1000, Size: 64}
	a.Regions[Odd] = Region{Kind: Odd, STag: 0x200, TO: 1, Size: 5}
	const want = "4957435401" + "00" + "0010" + "00001000" + "0000000000000007" + "0003" + "01020304" + "0002" +
		"00000000" +
		"0200" + "00000100" + "0000000000001000" + "00000040" + "0c00" + "00000200" + "0000000000000001" + "00000005"
	b := a.AppendTo(nil)
	if got := hex.EncodeToString(b); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if got := Parse(b); got == nil || *got != a {
		t.Errorf("%+v", got)
	}
	for n := range len(b) {
		if got := Parse(b[:n]); (got != nil) != (n >= headLen) {
			t.Errorf("cut to %d octets: %+v", n, got)
		}
	}
}
