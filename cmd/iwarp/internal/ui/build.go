package ui

import "runtime/debug"

// BuildInfo says what this program was built from.
type BuildInfo struct {
	Version string
	Commit  string // "" where the build does not know it
}

// Build returns what this program was built from.
func Build() BuildInfo {
	b := BuildInfo{Version: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	return b
}

// String is both in words.
func (b BuildInfo) String() string {
	if b.Commit == "" {
		return "iwarp " + b.Version
	}
	return "iwarp " + b.Version + ", commit " + b.Commit
}
