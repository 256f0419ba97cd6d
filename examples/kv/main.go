// Command kv is a key-value store that its clients read and write without the server's program.
//
// The table is one region. A slot has a version, which is odd while somebody writes, and a value.
// A client reads a slot by one RDMA Read, and takes it if the version is even, and the same
// before and behind the value: what an RDMA Write of another client has torn, it reads again. It writes
// under a lock, which is the version too: a CompareSwap makes it odd.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/go-iwarp/iwarp"
)

// A slot is the version, the value, and the version again.
const (
	slots    = 64
	valueLen = 112
	slotLen  = 8 + valueLen + 8
)

func main() {
	if err := run(os.Stdout, 4, 100); err != nil {
		log.Fatal(err)
	}
}

// serve tells every client where the table is: they need nothing else of this program.
func serve(ctx context.Context, ln *iwarp.Listener, table *iwarp.MR) {
	address, _ := table.Remote().MarshalBinary() // which has no error
	for {
		c, err := ln.Accept(ctx)
		if err != nil {
			return
		}
		_ = c.Send(ctx, address) // the connection closes with its client
	}
}

// client is a connection to a store.
type client struct {
	*iwarp.Conn
	table iwarp.RemoteBuffer
}

func dial(ctx context.Context, address string) (*client, error) {
	conn, err := iwarp.Dial(ctx, "tcp", address, nil)
	if err != nil {
		return nil, err
	}
	c, buf := &client{Conn: conn}, make([]byte, iwarp.RemoteBufferLen)
	if _, err = conn.Recv(ctx, buf); err == nil {
		err = c.table.UnmarshalBinary(buf)
	}
	return c, err
}

// get reads the value and the version of a slot.
func (c *client) get(ctx context.Context, at iwarp.RemoteBuffer) (value []byte, version uint64, err error) {
	slot := make([]byte, slotLen)
	for {
		if err := c.RDMARead(ctx, slot, at); err != nil {
			return nil, 0, err
		}
		// Atomics act on words in the byte order of the server: of both ends, here.
		version = binary.NativeEndian.Uint64(slot)
		if version%2 == 0 && version == binary.NativeEndian.Uint64(slot[8+valueLen:]) {
			return slot[8 : 8+valueLen], version, nil
		}
	}
}

// update changes a value by f, under the slot's lock.
func (c *client) update(ctx context.Context, key int, f func(value []byte)) error {
	at := c.table.Slice(uint64(key%slots)*slotLen, slotLen)
	for {
		value, version, err := c.get(ctx, at)
		if err != nil {
			return err
		}
		found, err := c.CompareSwap(ctx, at.Slice(0, 8), version, version+1)
		if err != nil {
			return err
		}
		if found != version {
			continue // another client was quicker
		}
		f(value)
		behind := binary.NativeEndian.AppendUint64(value, version+2)
		if err := c.RDMAWrite(ctx, behind, at.Slice(8, valueLen+8)); err != nil {
			return err
		}
		// The Write is placed before the atomic is carried out: one connection keeps the order.
		_, err = c.CompareSwap(ctx, at.Slice(0, 8), version+1, version+2)
		return err
	}
}

// run has clients count in one slot, each so many times.
func run(w io.Writer, clients, times int) error {
	ctx := context.Background()
	device, err := iwarp.NewDevice(nil)
	if err != nil {
		return err
	}
	pd, err := device.NewPD()
	if err != nil {
		return err
	}
	table, err := pd.NewMR(iwarp.AllocBuffer(slots*slotLen), iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic,
		&iwarp.MROptions{Concurrent: true})
	if err != nil {
		return err
	}
	ln, err := iwarp.Listen("tcp", "127.0.0.1:0", &iwarp.Config{PD: pd, CloseWithPeer: true})
	if err != nil {
		return err
	}
	go serve(ctx, ln, table)
	var wg sync.WaitGroup
	errs := make([]error, clients)
	for i := range errs {
		wg.Go(func() { errs[i] = count(ctx, ln.Addr().String(), times) })
	}
	wg.Wait()
	_ = table.Update(func(b []byte) {
		fmt.Fprintln(w, "counted to", binary.BigEndian.Uint64(b[7*slotLen+8:]))
	})
	return errors.Join(append(errs, ln.Shutdown(ctx), table.Close(), pd.Close())...)
}

func count(ctx context.Context, address string, times int) error {
	c, err := dial(ctx, address)
	for range times {
		if err != nil {
			return err
		}
		err = c.update(ctx, 7, func(v []byte) { binary.BigEndian.PutUint64(v, binary.BigEndian.Uint64(v)+1) })
	}
	return errors.Join(err, c.Close())
}
