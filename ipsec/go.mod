module github.com/go-iwarp/iwarp/ipsec

go 1.26.0

require (
	github.com/go-iwarp/iwarp v0.0.0-00010101000000-000000000000
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.50.0
)

require github.com/vishvananda/netns v0.0.5

replace github.com/go-iwarp/iwarp => ../
