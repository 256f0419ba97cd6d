package ui

import (
	"bytes"
	"fmt"
	"time"
)

// TextWidth is how long lines of text for people are.
const TextWidth = 92

// Plural is n things: 1 octet, 2 octets.
func Plural[T ~int | ~uint64](n T, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// Round leaves three digits of a duration, as many as somebody reads.
func Round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}

// Word is yes or no, by b.
func Word(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// PrivateText shows private data: as a string if all of it is printable.
func PrivateText(b []byte) string {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("%x", b)
		}
	}
	return Word(len(b) > 0, fmt.Sprintf("%q", b), "none")
}

// Compare names the first octet that differs.
func Compare(want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	for i := range want {
		if want[i] != got[i] {
			return fmt.Errorf("wrong data came back: octet %d of %d is 0x%02x, 0x%02x was sent", i+1, len(want), got[i],
				want[i])
		}
	}
	return nil
}
