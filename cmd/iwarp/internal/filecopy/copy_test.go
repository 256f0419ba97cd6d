package filecopy

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cmdtest"
	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
)

// octetsOf returns n random octets.
func octetsOf(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// sample makes a directory with all that can be copied.
func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, n := range []int{0, 1, 4096, wire.Small, wire.Small + 1, wire.Chunk + 1} {
		put(t, octetsOf(n), dir, "sizes", fmt.Sprint(n))
	}
	for i := range 600 { // more than a bundle has
		put(t, octetsOf(i), dir, "many", fmt.Sprint(i%7), fmt.Sprint(i))
	}
	put(t, octetsOf(10), dir, "names", "a b\tc", strings.Repeat("n", 240))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(filepath.Join(dir, "empty", "er"), 0o777))
	if runtime.GOOS != "windows" {
		put(t, octetsOf(10), dir, "names", "\xff\xfe: no UTF-8")
		check(os.Symlink("sizes/4096", filepath.Join(dir, "link")))
		check(os.Symlink("/nowhere", filepath.Join(dir, "dangling")))
		check(os.Chmod(filepath.Join(dir, "sizes", "1"), 0o400))
		check(os.Chmod(filepath.Join(dir, "empty"), 0o711))
	}
	check(os.Link(filepath.Join(dir, "sizes", "4096"), filepath.Join(dir, "many", "same")))
	holes, err := os.Create(filepath.Join(dir, "holes"))
	check(err)
	check(holes.Truncate(3*wire.Chunk + 17))
	_, err = holes.WriteAt(octetsOf(9000), wire.Chunk+5000)
	check(err)
	check(holes.Close())
	check(os.Chtimes(filepath.Join(dir, "empty"), time.Time{}, time.Unix(1e9, 0)))
	check(os.Chtimes(filepath.Join(dir, "sizes", "1"), time.Time{}, time.Unix(1e9, 123456000)))
	return dir
}

// describe tells all of a tree that is copied.
func describe(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		what := fmt.Sprintf("%q %v %d", rel, info.Mode(), info.ModTime().UnixNano())
		switch {
		case rel == ".":
			return nil // the caller's own
		case info.Mode().IsRegular():
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %d octets, %x", len(b), wire.SumOf(b, wire.Whole(int64(len(b)))))
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			what += " to " + to
		}
		list = append(list, what)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sameTrees complains of the first difference of two trees.
func sameTrees(t *testing.T, got, want string) {
	t.Helper()
	g, w := describe(t, got), describe(t, want)
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("got  %s\nwant %s", g[i], w[i])
		}
	}
	if len(g) != len(w) {
		t.Fatalf("%d entries, want %d", len(g), len(w))
	}
}

// What goes up and comes down again is what it was, with all that belongs to it, and
// what is there is not copied again.
func TestCopyBothWays(t *testing.T) {
	src, dir, back := sample(t), t.TempDir(), filepath.Join(t.TempDir(), "back")
	url, _ := serve(t, dir)
	mustCopy(t, "-r", src+"/", url+"/up/to")
	sameTrees(t, filepath.Join(dir, "up", "to"), src)
	mustCopy(t, "-r", url+"/up/to/", back)
	sameTrees(t, back, src)
	a, err := os.Stat(filepath.Join(back, "sizes", "4096"))
	b, err2 := os.Stat(filepath.Join(back, "many", "same"))
	if err != nil || err2 != nil || !os.SameFile(a, b) {
		t.Errorf("a file of two names has become two: %v, %v", err, err2)
	}
	for _, args := range [][]string{{"-r", src + "/", url + "/up/to"}, {"-r", url + "/up/to/", back}} {
		// A further name of a file is made again, which costs nothing.
		cmdtest.MustContain(t, args[1], mustCopy(t, append(args, "--json")...), `"copied":1,`, `"failed":0,"octets":0`)
	}
}

// Where a source goes, by rsync's rules.
func TestWhereItGoes(t *testing.T) {
	src := t.TempDir()
	put(t, []byte("f"), src, "f")
	put(t, []byte("g"), src, "d", "g")
	for _, c := range []struct {
		name string
		from []string
		to   string
		want []string
	}{
		{name: "file to a new name", from: []string{"f"}, to: "/new", want: []string{"new"}},
		{name: "file into a directory", from: []string{"f"}, to: "/there", want: []string{"there/f"}},
		{name: "file into a new directory", from: []string{"f"}, to: "/new/", want: []string{"new/f"}},
		{name: "file to the top", from: []string{"f"}, to: "/", want: []string{"f"}},
		{name: "two files", from: []string{"f", "d/g"}, to: "/new", want: []string{"new/f", "new/g"}},
		{name: "directory", from: []string{"d"}, to: "/new", want: []string{"new/d/g"}},
		{name: "what is in a directory", from: []string{"d/"}, to: "/new", want: []string{"new/g"}},
		{name: "out of the top is the top", from: []string{"f"}, to: "/../../x", want: []string{"x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, up := range []bool{true, false} {
				dst := t.TempDir()
				if err := os.Mkdir(filepath.Join(dst, "there"), 0o777); err != nil {
					t.Fatal(err)
				}
				args := []string{"-r"}
				if up {
					url, _ := serve(t, dst)
					for _, f := range c.from {
						args = append(args, src+"/"+f)
					}
					args = append(args, url+c.to)
				} else if strings.Contains(c.to, "..") {
					continue
				} else {
					url, _ := serve(t, src)
					for _, f := range c.from {
						args = append(args, url+"/"+f)
					}
					args = append(args, dst+c.to)
				}
				mustCopy(t, args...)
				var got []string
				for _, line := range describe(t, dst) {
					if strings.Contains(line, " octets") {
						got = append(got, strings.Split(line, `"`)[1])
					}
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("up %t: %q, want %q", up, got, c.want)
				}
			}
		})
	}
}

// What an earlier run has left is used where it is right and replaced where not.
func TestResume(t *testing.T) {
	const size = 5*wire.Chunk + 99
	for _, up := range []bool{true, false} {
		src, dst := t.TempDir(), t.TempDir()
		data := octetsOf(size)
		clear(data[3*wire.Chunk : 4*wire.Chunk]) // a hole, where the file system has them
		f := put(t, nil, src, "file")
		if err := os.Truncate(f, size); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(f, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.WriteAt(data[:3*wire.Chunk], 0)
		_, err2 := w.WriteAt(data[4*wire.Chunk:], 4*wire.Chunk)
		if err != nil || err2 != nil || w.Close() != nil {
			t.Fatal(err, err2)
		}
		left := bytes.Clone(data[:4*wire.Chunk])
		left[wire.Chunk] ^= 1    // wrong
		left[3*wire.Chunk+5] = 7 // in the hole
		put(t, append(left, octetsOf(3*wire.Chunk)...), dst, ".file.iwarp-part")
		var text string
		if up {
			url, _ := serve(t, dst)
			text = mustCopy(t, "--json", f, url+"/")
		} else {
			url, _ := serve(t, src)
			text = mustCopy(t, "--json", url+"/file", dst)
		}
		got, err := os.ReadFile(filepath.Join(dst, "file"))
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("up %t: other octets, %v", up, err)
		}
		cmdtest.MustContain(t, fmt.Sprint("up ", up), text, `"action":"resumed"`, `"had":83886`)
		if _, err := os.Lstat(filepath.Join(dst, ".file.iwarp-part")); err == nil {
			t.Error("the part is still there")
		}
	}
}

// Nothing is moved and nothing made.
func TestDryRun(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	put(t, []byte("x"), src, "d", "f")
	url, _ := serve(t, dst)
	text := mustCopy(t, "-n", "-r", src+"/d", url+"/")
	cmdtest.MustContain(t, "up", text, "would copy d/f", "would copy 2 entries, 1 octet")
	down, _ := serve(t, src)
	text = mustCopy(t, "-n", "-r", down+"/d", filepath.Join(dst, "new"))
	cmdtest.MustContain(t, "down", text, "would copy d/f")
	if left, _ := os.ReadDir(dst); len(left) > 0 {
		t.Errorf("made: %v", left)
	}
}

func TestExclude(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     string // of a.o a.c d/b.o d/e/c.c d/e/x
	}{
		{nil, "a.c a.o d/b.o d/e/c.c d/e/x"},
		{[]string{"*.o"}, "a.c d/e/c.c d/e/x"},
		{[]string{"e"}, "a.c a.o d/b.o"},
		{[]string{"d/e"}, "a.c a.o d/b.o"},
		{[]string{"/d/e/"}, "a.c a.o d/b.o"},
		{[]string{"d/*.o", "x"}, "a.c a.o d/e/c.c"},
		{[]string{"**/*.c"}, "a.o d/b.o d/e/x"},
		{[]string{"d/**"}, "a.c a.o"},
	} {
		src, dst := t.TempDir(), t.TempDir()
		for _, f := range []string{"a.o", "a.c", "d/b.o", "d/e/c.c", "d/e/x"} {
			put(t, nil, src, f)
		}
		url, _ := serve(t, src)
		args := []string{"-r", url + "/", dst}
		for _, p := range c.patterns {
			args = append(args, "--exclude", p)
		}
		mustCopy(t, args...)
		var got []string
		for _, line := range describe(t, dst) {
			if strings.Contains(line, " octets") {
				got = append(got, filepath.ToSlash(strings.Split(line, `"`)[1]))
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%q: %s, want %s", c.patterns, s, c.want)
		}
	}
}

// A limit holds: so much at once, and the rest by the second.
func TestBwlimit(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	put(t, octetsOf(wire.Chunk+1<<20), src, "f")
	url, _ := serve(t, dst)
	start := time.Now()
	mustCopy(t, "--bwlimit", "8M", src+"/f", url+"/")
	// The first chunk's worth is free: 1 MiB is left, an eighth of a second.
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("took %v: faster than the limit allows", took)
	}
}
