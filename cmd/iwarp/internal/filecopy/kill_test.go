package filecopy

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/filecopy/wire"
)

// kills is how often TestKill kills: IWARP_KILLS=200 go test -run TestKill .
func kills(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("IWARP_KILLS"))
	if err != nil && raceDetector { // everything takes so much longer
		return 2
	}
	if err != nil {
		return 10
	}
	t.Logf("%d kills", n)
	return n
}

// command runs this binary as the command.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	c.Stderr = os.Stderr
	t.Cleanup(func() {
		if c.Process != nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// serveCommand starts a server as a process and returns its URL.
func serveCommand(t *testing.T, dir string) (*exec.Cmd, string) {
	t.Helper()
	c := command(t, "serve", "--listen", "127.0.0.1:0", dir)
	c.Stderr = nil // its client dies
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if addr == "" {
		t.Fatalf("%q, %v", line, err)
	}
	return c, "iwarp://" + addr
}

// Whoever is killed, and whenever: each file is the old one or the new one, and the same
// command finishes what is left.
func TestKill(t *testing.T) {
	src := t.TempDir()
	versions := [2][][]byte{}
	sizes := []int{3*wire.Chunk + 5, wire.Small + 1}
	for range 40 {
		sizes = append(sizes, 3000)
	}
	for v := range versions {
		for _, n := range sizes {
			b := make([]byte, n+v)
			_, _ = rand.NewChaCha8([32]byte{byte(v), byte(n)}).Read(b)
			versions[v] = append(versions[v], b)
		}
	}
	set := func(dir string, v int) {
		for i, b := range versions[v] {
			put(t, b, dir, "d", fmt.Sprint(i))
		}
	}
	set(src, 1)
	// How long it takes undisturbed, so that the moments lie within it.
	probe := t.TempDir()
	set(probe, 0)
	_, url := serveCommand(t, probe)
	start := time.Now()
	if err := command(t, "cp", "-r", filepath.Join(src, "d"), url+"/").Run(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(start)
	for i := range kills(t) {
		dst := t.TempDir()
		set(dst, 0)
		server, url := serveCommand(t, dst)
		client := command(t, "cp", "-r", "--timeout", "5s", filepath.Join(src, "d"), url+"/")
		client.Stderr = nil // it says what broke
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		victim := []*exec.Cmd{client, server}[i%2]
		timer := time.AfterFunc(time.Duration(rand.Int64N(int64(whole)+1)), func() { _ = victim.Process.Kill() })
		_ = client.Wait() // by the kill, by the end of the server, or because it was done before
		timer.Stop()
		kinds := [2]int{}
		for n := range sizes {
			got, err := os.ReadFile(filepath.Join(dst, "d", fmt.Sprint(n)))
			switch {
			case err == nil && bytes.Equal(got, versions[0][n]):
				kinds[0]++
			case err == nil && bytes.Equal(got, versions[1][n]):
				kinds[1]++
			default:
				t.Fatalf("kill %d: file %d is neither the old nor the new one: %d octets, %v", i, n, len(got), err)
			}
		}
		if victim == server {
			_ = server.Process.Kill()
			_ = server.Wait()
			_, url = serveCommand(t, dst)
		}
		if err := command(t, "cp", "-r", filepath.Join(src, "d"), url+"/").Run(); err != nil {
			t.Fatalf("kill %d, %d old and %d new: the next run: %v", i, kinds[0], kinds[1], err)
		}
		for n := range sizes {
			if got, err := os.ReadFile(
				filepath.Join(dst, "d", fmt.Sprint(n)),
			); err != nil ||
				!bytes.Equal(got, versions[1][n]) {
				t.Fatalf("kill %d: after the next run file %d is not the new one, %v", i, n, err)
			}
		}
		if left, err := filepath.Glob(filepath.Join(dst, "d", ".*")); err != nil || len(left) > 0 {
			t.Errorf("kill %d: left: %q, %v", i, left, err)
		}
		t.Logf("kill %d: %d old, %d new", i, kinds[0], kinds[1])
	}
}
