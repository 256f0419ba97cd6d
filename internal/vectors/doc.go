// Package vectors has no code but its tests: golden, tolerated and wrong frames,
// octet by octet, against a whole endpoint.
package vectors
