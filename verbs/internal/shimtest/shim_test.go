package shimtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// build compiles the shim, a core that only tells what it is asked, and a program that
// does to descriptors what programs do.
func build(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the shim is for Linux")
	}
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skipf("no headers of libibverbs (Debian: libibverbs-dev): %v", err)
	}
	dir = t.TempDir()
	for _, args := range [][]string{
		{"-fPIC", "-shared", "-o", "shim.so", "../../shim/shim.c", "-ldl", "-lpthread"},
		{"-fPIC", "-shared", "-o", "stub.so", "testdata/stub.c"},
		{"-o", "program", "testdata/program.c", "-lpthread"},
	} {
		args = append(append([]string{"-g", "-O1", "-Wall", "-Wextra", "-Werror"}, flags...), args...)
		for i := range args {
			if i > 0 && args[i-1] == "-o" {
				args[i] = filepath.Join(dir, args[i])
			}
		}
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// run runs the program on the shim, behind what is given, and returns what the core was
// asked.
func run(t *testing.T, dir, preload string, command ...string) string {
	t.Helper()
	cmd := exec.Command(
		"env",
		append([]string{"LD_PRELOAD=" + preload, "IWARP_VERBS_CORE=" + filepath.Join(dir, "stub.so")}, command...)...)
	var told strings.Builder
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "ok\n") {
		t.Fatalf("%v\n%s\n%.4000s", err, out, told.String())
	}
	return told.String()
}

// wantBalanced checks that each file that was opened was closed once.
func wantBalanced(t *testing.T, told string) {
	t.Helper()
	for _, what := range []string{
		"doorbell 5 of 1", "write 1: command 17", "close descriptor of 1",
		"write 2: command 12",
	} {
		if !strings.Contains(told, what) {
			t.Errorf("the core did not hear %q", what)
		}
	}
	opened, closed := strings.Count(
		told,
		"open ",
	), strings.Count(
		told,
		"\nclose ",
	)-strings.Count(
		told,
		"close descriptor",
	)
	if opened != closed || opened < 800 {
		t.Errorf("%d files opened, %d closed", opened, closed)
	}
}

func TestShim(t *testing.T) {
	dir := build(t)
	wantBalanced(t, run(t, dir, filepath.Join(dir, "shim.so"), filepath.Join(dir, "program")))
}

func TestShimUnderAddressSanitizer(t *testing.T) {
	lib, err := exec.Command("gcc", "-print-file-name=libasan.so").Output()
	if path := strings.TrimSpace(string(lib)); err != nil || !filepath.IsAbs(path) {
		t.Skipf("no address sanitizer: %s %v", lib, err)
	}
	dir := build(t, "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	preload := strings.TrimSpace(string(lib)) + ":" + filepath.Join(dir, "shim.so")
	wantBalanced(t, run(t, dir, preload, "ASAN_OPTIONS=detect_leaks=0", filepath.Join(dir, "program")))
}

func TestShimUnderValgrind(t *testing.T) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		t.Skipf("no valgrind: %v", err)
	}
	dir := build(t)
	// The children of env are traced, and env itself is clean.
	told := run(
		t,
		dir,
		filepath.Join(dir, "shim.so"),
		valgrind,
		"-q",
		"--error-exitcode=9",
		filepath.Join(dir, "program"),
	)
	if i := strings.Index(told, "=="); i >= 0 {
		t.Errorf("valgrind says %.2000s", told[i:])
	}
	wantBalanced(t, told)
}
