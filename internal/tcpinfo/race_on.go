//go:build race && linux

package tcpinfo

import "sync/atomic"

// What one goroutine does before it sends comes before what another does after it
// has received that. The race detector cannot know, and package syscall tells it in
// this way too.
var order atomic.Uint32

func released() { order.Add(1) }
func acquired() { order.Load() }
