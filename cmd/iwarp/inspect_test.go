package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/cli"
)

var update = flag.Bool("update", false, "put what the command prints into the scripts and documents")

// TestInspect runs the scripts of testdata/inspect. The folder $SCENES has the
// recordings of inspect_scene_test.go.
func TestInspect(t *testing.T) {
	dir := t.TempDir()
	writeScenes(t, dir)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/inspect", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SCENES", dir)
			entries, err := os.ReadDir(dir)
			for _, e := range entries {
				b, rerr := os.ReadFile(filepath.Join(dir, e.Name()))
				if rerr != nil {
					return rerr
				}
				if err := os.WriteFile(filepath.Join(env.WorkDir, e.Name()), b, 0o600); err != nil {
					return err
				}
			}
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"compress": compress, "cut": cut, "concat": concat, "serve": serve, "end": end,
		},
	})
}

// compress KIND IN OUT compresses a file.
func compress(ts *testscript.TestScript, _ bool, args []string) {
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if args[0] == "zstd" {
		var err error
		w, err = zstd.NewWriter(&b)
		ts.Check(err)
	}
	_, err := w.Write([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), b.Bytes(), 0o600))
}

// cut IN OCTETS OUT copies the start of a file.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(ts.ReadFile(args[0])[:n]), 0o600))
}

// concat OUT IN... joins files.
func concat(ts *testscript.TestScript, _ bool, args []string) {
	var b []byte
	for _, name := range args[1:] {
		b = append(b, ts.ReadFile(name)...)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}

// TestSamples keeps the output that docs/inspect.md shows.
func TestSamples(t *testing.T) {
	dir := t.TempDir()
	writeScenes(t, dir)
	for part, args := range map[string][]string{
		"listing": {"everything.pcapng"},
		"hex":     {"--hex", "--filter", "frame=8", "everything.pcapng"},
		"verdict": {"--verdict", "broken.pcapng"},
	} {
		call := "iwarp inspect " + strings.Join(args, " ")
		args[len(args)-1] = filepath.Join(dir, args[len(args)-1])
		var out, errs bytes.Buffer
		cli.Main(t.Context(), append([]string{"inspect"}, args...), &out, &errs)
		if errs.Len() > 0 {
			t.Fatal(errs.String())
		}
		shown := out.String()
		if part == "hex" { // what is new in it
			_, shown, _ = strings.Cut(shown, "seconds\n")
			shown, _, _ = strings.Cut(shown, "Connection 1 is")
		}
		document(t, part, "```\n$ "+call+"\n"+strings.Trim(shown, "\n")+"\n```\n")
	}
}
