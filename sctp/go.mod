module github.com/go-iwarp/iwarp/sctp

go 1.26.0

require (
	github.com/go-iwarp/iwarp v0.0.0
	github.com/pion/logging v0.2.4
	github.com/pion/sctp v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/transport/v5 v5.1.4 // indirect
)

replace github.com/go-iwarp/iwarp => ../
