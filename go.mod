module github.com/go-iwarp/iwarp

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.50.0
	golang.org/x/term v0.48.0
	pgregory.net/rapid v1.3.0
)

require github.com/klauspost/compress v1.20.4

require (
	github.com/rogpeppe/go-internal v1.16.0
	golang.org/x/tools v0.26.0 // indirect
)
