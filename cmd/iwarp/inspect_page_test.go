package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needChromium skips the test where there is no browser.
func needChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser: chromium is not installed (Debian, Ubuntu: apt-get install chromium)")
	return ""
}

// TestPageInBrowser opens pages in a browser without a window: the browser must
// build what the page is meant to be, and complain of nothing. (A script that ran,
// or a resource that it tried to load, would be a complaint: the page forbids both.)
func TestPageInBrowser(t *testing.T) {
	browser := needChromium(t)
	dir := t.TempDir()
	writeScenes(t, dir)
	for name, want := range map[string]map[string]int{
		"everything": {`<g class="row `: 20, "<polyline": 3, "Terminate 0/1/00": 1, "<polygon": 18},
		"broken":     {`<a href="#c1-f6">6</a>`: 1, `id="c1-f6"`: 1, `class="flag"`: 4, `id="c1-rules"`: 1},
		"hostile":    {"&lt;script&gt;alert(1)": 2, "<script": 0, "<img": 0},
		"two":        {`<section id="c2">`: 1, "<svg": 4},
	} {
		t.Run(name, func(t *testing.T) {
			page := filepath.Join(dir, name+".html")
			inspect(t, "--html", page, filepath.Join(dir, name+".pcapng"))
			cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
				"--disable-quic", "--no-first-run",
				"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+
					t.TempDir(),
				"--enable-logging=stderr", "--dump-dom", "file://"+page)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			dom, err := cmd.Output()
			if err != nil {
				t.Skipf("the browser does not run here: %v\n%s", err, &errs)
			}
			for text, n := range want {
				if got := strings.Count(string(dom), text); got != n {
					t.Errorf("%d times %q, want %d", got, text, n)
				}
			}
			for line := range strings.Lines(errs.String()) {
				if strings.Contains(line, "CONSOLE") {
					t.Errorf("the browser complains: %s", line)
				}
			}
		})
	}
}
