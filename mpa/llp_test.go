package mpa_test

import (
	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/mpa"
)

// Conn is what DDP wants of the layer below it; neither package imports the other.
var _ ddp.LLP = (*mpa.Conn)(nil)
