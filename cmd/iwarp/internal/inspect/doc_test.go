package inspect

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/inspect/analysis"
)

// jsonKeys lists the keys of a struct's JSON, and those of structs in it with the
// keys that lead there in front.
func jsonKeys(t reflect.Type) (keys []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[analysis.Head]().PkgPath() &&
		t.PkgPath() != reflect.TypeFor[endObject]().PkgPath() {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && f.Type == reflect.TypeFor[analysis.Head](): // documented once
		case f.Anonymous:
			keys = append(keys, jsonKeys(f.Type)...)
		case tag != "-" && tag != "" && f.IsExported():
			keys = append(keys, tag)
			if f.Type != reflect.TypeFor[*analysis.Negotiated]() {
				keys = append(keys, jsonKeys(f.Type)...)
			}
		}
	}
	return keys
}

// TestJSONKeysAreDocumented compares docs/inspect.md with what is printed, both
// ways.
func TestJSONKeysAreDocumented(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "inspect.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "## JSON\n")
	sections := map[string]string{}
	for part := range strings.SplitSeq(text, "\n### ") {
		title, body, _ := strings.Cut(part, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[title] = body
	}
	quoted := regexp.MustCompile("`[a-z.]*?([a-z_0-9]+)`")
	snake := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	for title, v := range map[string]any{
		"opened": analysis.Opened{}, "startup": startupObject{}, "negotiated": analysis.Negotiated{},
		"message": analysis.Message{},
		"fpdu":    fpduObject{}, "verdict": analysis.Verdict{}, "anomaly": analysis.Anomaly{}, "hint": analysis.Hint{},
		"closed": analysis.Closed{}, "end": endObject{},
	} {
		documented := map[string]bool{}
		for _, m := range quoted.FindAllStringSubmatch(sections[title], -1) {
			documented[m[1]] = true
		}
		keys := map[string]bool{}
		for _, key := range jsonKeys(reflect.TypeOf(v)) {
			keys[key] = true
			if !documented[key] && key != "event" {
				t.Errorf("docs/inspect.md does not tell of %q of %s", key, title)
			}
			if !snake.MatchString(key) {
				t.Errorf("%s: %q is not snake_case", title, key)
			}
		}
		for line := range strings.Lines(sections[title]) {
			cells := strings.Split(line, "|")
			if len(cells) < 3 || strings.Contains(cells[1], "---") {
				continue
			}
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				if !keys[m[1]] && m[1] != "from" {
					t.Errorf("docs/inspect.md tells of %q of %s, which is not there", m[1], title)
				}
			}
		}
	}
	for _, key := range []string{"event", "conn", "frame", "time", "from"} {
		if !strings.Contains(text[:strings.Index(text, "### opened")], "`"+key+"`") {
			t.Errorf("docs/inspect.md does not tell of %q", key)
		}
	}
}
