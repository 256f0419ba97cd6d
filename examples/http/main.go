// Command http is an HTTP server and its client over iWARP: net/http with another listener and another dialer.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/go-iwarp/iwarp/stream"
)

func main() {
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	ln, err := stream.Listen("tcp", "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %s: %d octets, %v\n", r.Method, r.URL.Path, n, err)
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	transport := &http.Transport{DialContext: (&stream.Dialer{}).DialContext}
	client := &http.Client{Transport: transport}
	for _, size := range []int{0, 1 << 20} {
		resp, err := client.Post("http://"+ln.Addr().String()+"/upload", "text/plain",
			strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			return err
		}
		_, err = io.Copy(w, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return err
		}
	}
	transport.CloseIdleConnections()
	if err := srv.Close(); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
