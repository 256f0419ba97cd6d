module github.com/go-iwarp/iwarp/verbs

go 1.26.0

replace github.com/go-iwarp/iwarp => ../

require (
	github.com/go-iwarp/iwarp v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.50.0
)
