package fill_test

import (
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/tools/internal/fill"
)

func TestText(t *testing.T) {
	long := strings.Repeat("x", fill.Width)
	for _, c := range []struct{ name, text, want string }{
		{name: "nothing", text: "", want: "- \n"},
		{name: "one line", text: "a  b\nc", want: "- a b c\n"},
		{
			name: "a line that is just full",
			text: strings.Repeat("x", fill.Width-4) + " b c",
			want: "- " + strings.Repeat("x", fill.Width-4) + " b\n  c\n",
		},
		{name: "a word that is too long", text: "a " + long + " b", want: "- a\n  " + long + "\n  b\n"},
		{
			name: "columns are characters",
			text: strings.Repeat("ü", fill.Width-4) + " b c",
			want: "- " + strings.Repeat("ü", fill.Width-4) + " b\n  c\n",
		},
	} {
		if got := fill.Text("- ", "  ", c.text); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
