module github.com/go-iwarp/iwarp/netstack

go 1.26.0

require (
	github.com/go-iwarp/iwarp v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
	gvisor.dev/gvisor v0.0.0-20250503011706-39ed1f5ac29c
)

require (
	github.com/google/btree v1.1.2 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/go-iwarp/iwarp => ../
