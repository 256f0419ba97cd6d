// Pgo measures where "iwarp bench" spends its time and writes the profile that the
// command is built with, cmd/iwarp/default.pgo: Go's compiler inlines what is hot
// there (https://go.dev/doc/pgo). Run it by hand when the data path has changed
// much; a profile that is a little old does no harm.
//
// Usage: pgo [-o FILE] [-duration D]
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// work is what is profiled, both ends: arguments of the client alone, and of both.
var work = []struct{ client, both string }{
	{client: "--size 64"},
	{client: "--size 64 --op send"},
	{client: "--size 4KiB"},
	{client: "--size 4KiB --op send"},
	{client: "--size 64KiB"},
	{client: "--size 1MiB"},
	{client: "--op read"},
	{client: "--lat"},
	{client: "--lat"}, // there is much more code in a message than in a MiB
	{client: "--lat"},
	{client: "--lat --op read"},
	{client: "--lat", both: "--progress=polling"},
	{client: "", both: "--segment 1448"},
	{client: "--op read", both: "--segment 1448"},
	{client: "", both: "--segment 1448 --crc off"},
	{client: "", both: "--segment 1448 --markers"},
}

func main() {
	out := flag.String("o", "cmd/iwarp/default.pgo", "the profile's `file`")
	duration := flag.Duration("duration", 500*time.Millisecond, "of a sample, of which there are five")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, *duration); err != nil {
		fmt.Fprintln(os.Stderr, "pgo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string, duration time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "pgo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	exe := filepath.Join(dir, "iwarp")
	if b, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-pgo=off", "-o", exe,
		"./cmd/iwarp").CombinedOutput(); err != nil {
		return fmt.Errorf("building iwarp: %w\n%s", err, b)
	}
	var profiles []string
	for i, w := range work {
		fmt.Fprintf(os.Stderr, "%d of %d: %s %s\n", i+1, len(work), w.both, w.client)
		ours := []string{filepath.Join(dir, fmt.Sprintf("client%d", i)), filepath.Join(dir, fmt.Sprintf("server%d", i))}
		if err := profile(ctx, exe, ours, w.client, w.both, duration); err != nil {
			return fmt.Errorf("%s %s: %w", w.both, w.client, err)
		}
		profiles = append(profiles, ours...)
	}
	merged, err := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-proto"}, profiles...)...).Output()
	if err != nil {
		return fmt.Errorf("merging: %w", err)
	}
	clean, err := withoutPaths(merged)
	if err != nil {
		return err
	}
	return os.WriteFile(out, clean, 0o644)
}

// profile runs one bench between two processes, each with one processor as when they
// share two, and writes both ends' profiles.
func profile(ctx context.Context, exe string, files []string, client, both string, duration time.Duration) error {
	env := append(os.Environ(), "GOMAXPROCS=1")
	server := exec.CommandContext(ctx, exe,
		append([]string{"bench", "--serve", "127.0.0.1:0", "--json", "--profile", files[1]},
			strings.Fields(both)...)...)
	server.Env = env
	said, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	addr, err := listening(said)
	if err == nil {
		c := exec.CommandContext(ctx, exe,
			append(append([]string{
				"bench", addr, "--samples", "5", "--duration", duration.String(), "--profile", files[0],
			},
				strings.Fields(both)...), strings.Fields(client)...)...)
		c.Env = env
		var b []byte
		if b, err = c.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, b)
		}
	}
	return errors.Join(err, server.Process.Signal(os.Interrupt), server.Wait())
}

// listening reads the address from what a server says.
func listening(r io.Reader) (string, error) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		var e struct{ Event, Address string }
		if err := json.Unmarshal(s.Bytes(), &e); err == nil && e.Event == "listening" {
			return e.Address, nil
		}
	}
	return "", errors.Join(errors.New("the server does not say where it listens"), s.Err())
}

// withoutPaths takes the names of this machine's files out of a profile: of the
// strings of its table those that are absolute paths. Go does not need them here.
// (https://github.com/google/pprof/blob/main/proto/profile.proto)
func withoutPaths(compressed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("the merged profile: %w", err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("the merged profile: %w", err)
	}
	if b, err = mapStrings(b, func(s string) string {
		if filepath.IsAbs(s) {
			return filepath.Base(s)
		}
		return s
	}); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(b)
	err = errors.Join(err, w.Close()) // before Bytes: it writes the end
	return out.Bytes(), err
}
