package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name   string
		env    []string
		folder string
		want   []string
		err    string
	}{
		{name: "empty", folder: "/l", want: []string{"SYSFS_PATH=/l/sysfs", "LD_PRELOAD=/l/libiwarpverbs.so"}},
		{
			name: "others stay", env: []string{"A=1", "LD_PRELOAD=x.so:y.so", "SYSFS_PATH=/old", "B="}, folder: "/l",
			want: []string{"A=1", "B=", "SYSFS_PATH=/l/sysfs", "LD_PRELOAD=/l/libiwarpverbs.so:x.so:y.so"},
		},
		{name: "a blank", folder: "/l l", err: "no blank"},
		{name: "too long", folder: "/" + strings.Repeat("l", 250), err: "at most 255"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := environment(tt.env, tt.folder)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	c := Command{Libraries: dir}
	if _, err := c.find(); err == nil || !strings.Contains(err.Error(), "verbs/build.sh") {
		t.Errorf("in an empty folder: %v, want what to build", err)
	}
	for _, f := range []string{shim, core, sysfs} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.find(); err != nil || got != dir {
		t.Errorf("got %q, %v, want %q", got, err, dir)
	}
}

// What cannot be run so is told before it runs.
func TestSuits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux's programs only")
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skipf("no sh: %v", err)
	}
	if sh, err = filepath.EvalSymlinks(sh); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	b, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	setuid, script := filepath.Join(dir, "setuid"), filepath.Join(dir, "script")
	for f, mode := range map[string]os.FileMode{setuid: 0o755 | os.ModeSetuid, script: 0o755} {
		if err := os.WriteFile(f, b, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(f, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // a Go program without cgo is linked statically
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, library, want string }{
		{name: "a program", path: sh, library: sh},
		{name: "a script", path: script, library: sh},
		{name: "setuid", path: setuid, library: sh, want: "setuid"},
		{name: "no library", path: sh, library: script, want: script},
		{name: "not there", path: filepath.Join(dir, "none"), library: sh, want: "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) { wantSuits(t, tt.path, tt.library, tt.want) })
	}
	t.Run("static", func(t *testing.T) {
		if out, err := exec.Command("ldd", self).CombinedOutput(); err == nil {
			t.Skipf("the test is not linked statically: %.60s", out)
		}
		wantSuits(t, self, sh, "statically")
	})
}

func wantSuits(t *testing.T, path, library, want string) {
	t.Helper()
	err := suits(path, library)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestProvider(t *testing.T) {
	dir := t.TempDir()
	if err := provider([]string{dir}); err == nil || !strings.Contains(err.Error(), "ibverbs-providers") {
		t.Errorf("without a provider: %v, want what to install", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "librxe-rdmav34.so"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := provider([]string{t.TempDir(), dir}); err != nil {
		t.Errorf("with a provider: %v", err)
	}
}
