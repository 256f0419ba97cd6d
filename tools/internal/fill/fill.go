// Package fill breaks the text of generated documents into lines.
package fill

import (
	"strings"
	"unicode/utf8"
)

// Width is how many columns a line of the project's documents may have.
const Width = 120

// Text breaks text at its spaces into lines of at most [Width] columns, where its words
// are short enough. The first line begins with first, the others with rest.
func Text(first, rest, text string) string {
	var b strings.Builder
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		switch {
		case empty:
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > Width:
			b.WriteString(line + "\n")
			line = rest
		default:
			line += " "
		}
		line += word
		empty = false
	}
	return b.String() + line + "\n"
}
