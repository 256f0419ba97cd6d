package live

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/go-iwarp/iwarp"
)

// Path is the Unix-domain socket at which the process with this number offers its connections:
// in [os.TempDir], so that both processes need the same TMPDIR.
func Path(pid int) string { return filepath.Join(os.TempDir(), fmt.Sprintf("iwarp-%d.sock", pid)) }

// Offering is what Offer has opened.
type Offering struct {
	path   string
	server *http.Server
	ended  chan struct{}
}

// Offer serves [Handler] of these devices at Path of this process, for "iwarp top PID", until
// Close. Only the user that the process runs as, and root, can connect to it. A process offers
// once: further devices belong into the same call. It does not block.
func Offer(devices ...*iwarp.Device) (*Offering, error) {
	path := Path(os.Getpid())
	if nc, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = nc.Close()
		return nil, fmt.Errorf("live: %s: this process offers its connections already", path)
	}
	ln, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(Endpoint, Handler(devices...))
	o := &Offering{path: path, ended: make(chan struct{}), server: &http.Server{
		Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}}
	go func() {
		defer close(o.ended)
		_ = o.server.Serve(ln) // until Close
	}()
	return o, nil
}

// Path is where the socket is.
func (o *Offering) Path() string { return o.path }

// Close ends the offer and removes the socket. It is idempotent.
func (o *Offering) Close() error {
	if o == nil || o.server == nil {
		return errors.New("live: an Offering that Offer has not made")
	}
	select {
	case <-o.ended:
		return nil
	default:
	}
	err := o.server.Close()
	<-o.ended
	if rerr := os.Remove(o.path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// listen puts a socket at path that only this user can connect to, in place of what another
// process of the same number has left there.
func listen(path string) (net.Listener, error) {
	if runtime.GOOS == "windows" { // the folder is the user's own
		_ = os.Remove(path)
		return net.Listen("unix", path)
	}
	// Between bind and chmod nobody else can get at it in a folder of its own, and a rename
	// does not follow a link that somebody has put at path.
	dir, err := os.MkdirTemp(filepath.Dir(path), "iwarp-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	first := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", first)
	if err != nil {
		return nil, err
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it does not lie there any more
	}
	if err = os.Chmod(first, 0o600); err == nil {
		err = os.Rename(first, path)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}
