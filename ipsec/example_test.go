package ipsec_test

import (
	"fmt"
	"log/slog"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/ipsec"
)

// A device that does without MPA's CRC only where the kernel's IPsec policy
// protects the connection. It needs CAP_NET_ADMIN; without, the CRC stays on and
// the log says why.
func Example() {
	checker, err := ipsec.New()
	if err != nil {
		fmt.Println("CRC always on:", err)
		return
	}
	checker.Logger = slog.Default()
	device, err := iwarp.NewDevice(&iwarp.DeviceConfig{
		Logger: slog.Default(),
		CRCSuppression: &iwarp.CRCSuppression{
			Protection: "ESP between these hosts",
			Covers:     checker.Covers,
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = &iwarp.Config{Device: device} // for Dial and Listen
}
