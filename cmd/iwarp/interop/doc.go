// Package interop has tests only: they exchange data with the iWARP
// implementation of the Linux kernel, siw, which runs in a guest that guest.sh
// makes. README.md says how to run them.
package interop
