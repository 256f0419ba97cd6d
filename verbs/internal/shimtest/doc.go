// Package shimtest tests the C part, ../../shim, which is no package of Go.
package shimtest
