// Package verbs is "iwarp verbs": it runs a program of libibverbs or librdmacm on the
// libraries of the module verbs, by exec.
package verbs

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"
)

// Command is "iwarp verbs".
type Command struct {
	Libraries string   `placeholder:"FOLDER" help:"Where the libraries are: see below."`
	Print     bool     `help:"Print the environment that a program needs."`
	Program   []string `arg:"" optional:"" help:"The program and its arguments, behind --."`
}

// Help is the long help.
func (c *Command) Help() string {
	return `Runs an unmodified program that uses libibverbs, librdmacm or rsockets on iWARP in user space: as an
ordinary user, with no RDMA device and no kernel module. Both ends may be such programs; the other end may also be
hardware or Linux's siw.

    iwarp verbs -- rping -s &
    iwarp verbs -- rping -c -a 127.0.0.1 -v -C 3

Linux with glibc only. It needs the distribution's libibverbs, librdmacm and providers (Debian: ibverbs-providers
librdmacm1), and two libraries, which verbs/build.sh of the source makes. They are looked for in the user's cache
folder (iwarp/verbs), in ../lib/iwarp-verbs beside this command, in /usr/lib/iwarp-verbs and in
/usr/local/lib/iwarp-verbs. See docs/iwarp-verbs.md.

IWARP_VERBS_DEBUG=1 logs what the program asks for, and IWARP_VERBS_SPIN=1 leaves ibv_poll_cq as it is: by default a
program that spins in it sleeps for up to 100 us at a time when nothing comes.

Exit codes: the program's; 1 if it cannot be run, 2 if the command line is wrong.`
}

// Validate wants a program.
func (c *Command) Validate() error {
	if len(c.Program) == 0 && !c.Print {
		return errors.New("no program: iwarp verbs -- PROGRAM ARGUMENTS")
	}
	return nil
}

// The files of a folder of libraries.
const (
	shim  = "libiwarpverbs.so"
	core  = "libiwarpcore.so"
	sysfs = "sysfs"
)

// Run becomes the program.
func (c *Command) Run(_ context.Context, out *ui.Output) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("iwarp verbs needs Linux: this is %s", runtime.GOOS)
	}
	folder, err := c.find()
	if err != nil {
		return err
	}
	env, err := environment(os.Environ(), folder)
	if err != nil {
		return err
	}
	if c.Print {
		for _, v := range env[len(env)-2:] {
			out.Printf("%s\n", v)
		}
		return nil
	}
	path, err := exec.LookPath(c.Program[0])
	if err != nil {
		return err
	}
	if err := suits(path, filepath.Join(folder, shim)); err != nil {
		return err
	}
	if err := provider(providerFolders()); err != nil {
		return err
	}
	return execute(path, c.Program, env)
}

// find returns the folder with the libraries.
func (c *Command) find() (string, error) {
	folders := candidates()
	if c.Libraries != "" {
		folders = []string{c.Libraries}
	}
	for _, f := range folders {
		if complete(f) {
			return filepath.Abs(f)
		}
	}
	return "", fmt.Errorf("the libraries are not built: no %s, %s and %s in %s\nBuild them with: sh verbs/build.sh"+
		" (in the source; needs Go, a C compiler and libibverbs-dev)", shim, core, sysfs, strings.Join(folders, ", "))
}

func candidates() (folders []string) {
	if d, err := os.UserCacheDir(); err == nil {
		folders = append(folders, filepath.Join(d, "iwarp", "verbs"))
	}
	if exe, err := os.Executable(); err == nil {
		folders = append(folders, filepath.Join(filepath.Dir(exe), "..", "lib", "iwarp-verbs"))
	}
	return append(folders, "/usr/lib/iwarp-verbs", "/usr/local/lib/iwarp-verbs")
}

func complete(folder string) bool {
	for _, f := range [...]string{shim, core, sysfs} {
		if _, err := os.Stat(filepath.Join(folder, f)); err != nil {
			return false
		}
	}
	return true
}

// maxSysfs is what rdma-core has room for.
const maxSysfs = 255

// environment is env with what the program needs, in the last two places.
func environment(env []string, folder string) ([]string, error) {
	sys, preload := filepath.Join(folder, sysfs), filepath.Join(folder, shim)
	if len(sys) > maxSysfs {
		return nil, fmt.Errorf("%s: rdma-core takes at most %d octets for SYSFS_PATH", sys, maxSysfs)
	}
	if strings.ContainsAny(preload, " :") {
		return nil, fmt.Errorf("%s: the dynamic linker takes no blank and no colon in LD_PRELOAD", preload)
	}
	var rest []string
	for _, v := range env {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "SYSFS_PATH":
		case "LD_PRELOAD":
			if value != "" {
				preload += ":" + value
			}
		default:
			rest = append(rest, v)
		}
	}
	return append(rest, "SYSFS_PATH="+sys, "LD_PRELOAD="+preload), nil
}

// suits says why a program cannot be run so, if it cannot.
func suits(path, library string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if st.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		return fmt.Errorf("%s is setuid or setgid: the dynamic linker preloads no library of the user's into such"+
			" programs. Run a copy without the bit", path)
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil //nolint:nilerr // a script: what runs it inherits the environment
	}
	defer f.Close()
	loader := interpreter(f)
	switch {
	case loader == "":
		return fmt.Errorf("%s is linked statically: no library can be preloaded into it", path)
	case strings.Contains(loader, "musl"):
		return fmt.Errorf("%s is linked with musl (%s): the libraries are for glibc", path, loader)
	}
	l, err := elf.Open(library)
	if err != nil {
		return fmt.Errorf("%s: %w", library, err)
	}
	defer l.Close()
	if l.Machine != f.Machine || l.Class != f.Class {
		return fmt.Errorf("%s is for %v (%v), and the libraries are for %v (%v)",
			path, f.Machine, f.Class, l.Machine, l.Class)
	}
	return nil
}

// interpreter returns the dynamic linker that a program asks for.
func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b := make([]byte, min(p.Filesz, 4096))
			n, _ := p.ReadAt(b, 0)
			return strings.TrimRight(string(b[:n]), "\x00")
		}
	}
	return ""
}

func providerFolders() []string {
	var all []string
	for _, p := range [...]string{
		"/usr/lib/*/libibverbs", "/usr/lib64/libibverbs", "/usr/lib/libibverbs", "/usr/local/lib*/libibverbs",
	} {
		m, _ := filepath.Glob(p)
		all = append(all, m...)
	}
	return all
}

// provider says what to install if rdma-core's provider for rxe is not there: it is what
// the program's libibverbs drives the queues with.
func provider(folders []string) error {
	for _, f := range folders {
		if m, _ := filepath.Glob(filepath.Join(f, "librxe-rdmav*.so")); len(m) > 0 {
			return nil
		}
	}
	return errors.New("rdma-core's provider librxe is not installed" +
		" (Debian: apt-get install ibverbs-providers; Fedora: libibverbs)")
}
