package tree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T) (*Tree, string) {
	t.Helper()
	dir := t.TempDir()
	tr, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr, dir
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		list = append(list, e.Name())
	}
	return list
}

// A file that shall be replaced is there, whole, until the new one is.
func TestReplaceAtOnce(t *testing.T) {
	tr, dir := open(t)
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := Entry{Path: "f", Kind: File, Perm: 0o644, Size: 3, MTime: time.Unix(1e9, 0)}
	s, err := tr.Create(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteAt([]byte("ne"), 0); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(name); string(b) != "old" {
		t.Errorf("half-way: %q", b)
	}
	if _, err := s.WriteAt([]byte("w"), 2); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(e); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if b, _ := os.ReadFile(name); string(b) != "new" || err != nil || !info.ModTime().Equal(e.MTime) {
		t.Errorf("%q, %v, %v", b, info.ModTime(), err)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("left: %q", got)
	}
}

// Two that make the same file do not mix it.
func TestTwoAtOnce(t *testing.T) {
	tr, dir := open(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			data := bytes.Repeat([]byte{byte('a' + i)}, 1000*(i+1))
			e := Entry{Path: "d/f", Kind: File, Perm: 0o644, Size: int64(len(data))}
			for range 20 {
				if err := tr.WriteFile(e, data); err != nil && !strings.Contains(err.Error(), "somebody else") {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(filepath.Join(dir, "d", "f"))
	if err != nil || len(b) == 0 || len(b) != 1000*int(b[0]-'a'+1) || len(bytes.Trim(b, string(b[:1]))) > 0 {
		t.Errorf("%d octets, %v", len(b), err)
	}
	if got := names(t, filepath.Join(dir, "d")); len(got) != 1 {
		t.Errorf("left: %q", got)
	}
}

// What was left by a run that died is taken over; what is too much of it goes.
func TestTakeOver(t *testing.T) {
	tr, dir := open(t)
	if err := os.WriteFile(
		filepath.Join(dir, partName("f")),
		[]byte("much longer than it will be"),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	e := Entry{Path: "f", Kind: File, Perm: 0o644, Size: 4}
	if err := tr.WriteFile(e, []byte("four")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "f")); string(b) != "four" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestPartNames(t *testing.T) {
	for _, n := range []int{1, 200, 242, 243, 255} {
		p := partName(strings.Repeat("x", n))
		if !IsPart(p) || len(p) > maxName {
			t.Errorf("%d: %q", n, p)
		}
	}
	if partName(strings.Repeat("x", 254)) == partName(strings.Repeat("x", 255)) {
		t.Error("two names, one part")
	}
}

func TestCheck(t *testing.T) {
	for p, ok := range map[string]bool{
		".": true, "a": true, "a/b": true, "..a": true, "\xff": true, "a b": true,
		"": false, "..": false, "../a": false, "a/../b": false, "a//b": false,
		"/a": false, "a/": false, "./a": false, "a\x00": false,
	} {
		if err := Check(p); (err == nil) != ok {
			t.Errorf("%q: %v", p, err)
		}
	}
}

// Directories stay open for those who use them, and no more than some for nobody.
func TestOpenDirectories(t *testing.T) {
	tr, _ := open(t)
	for i := range 3 * maxFree {
		if err := tr.WriteFile(Entry{Path: fmt.Sprintf("d%d/f", i), Perm: 0o600, Size: 1}, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if len(tr.dirs) != maxFree || len(tr.free) != maxFree {
		t.Errorf("%d open, %d free, want %d", len(tr.dirs), len(tr.free), maxFree)
	}
}

func TestWalk(t *testing.T) {
	tr, dir := open(t)
	for _, n := range []string{"a/b/c", "a/d", "e", "a/.x.iwarp-part"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(n)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	collect := func(from string, recursive bool, skip func(Entry) bool) string {
		m := map[string]bool{}
		for e, err := range tr.Walk(t.Context(), from, recursive, skip) {
			if err != nil {
				t.Error(err)
			}
			m[e.Path] = true
		}
		return fmt.Sprint(m)
	}
	for _, c := range []struct{ got, want string }{
		{collect(".", true, nil), "map[.:true a:true a/b:true a/b/c:true a/d:true e:true]"},
		{collect("a", true, nil), "map[a:true a/b:true a/b/c:true a/d:true]"},
		{collect("a", false, nil), "map[a:true]"},
		{collect("e", true, nil), "map[e:true]"},
		{collect(".", true, func(e Entry) bool { return e.Path == "a" }), "map[.:true e:true]"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	for _, err := range tr.Walk(t.Context(), "nothing", true, nil) {
		if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}
