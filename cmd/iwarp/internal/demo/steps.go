package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-iwarp/iwarp/cmd/iwarp/internal/ui"

	"github.com/go-iwarp/iwarp"
)

// startup connects the two ends and shows all that they agreed on.
func (d *demo) startup(ctx context.Context) error {
	d.heading("Startup: who talks, and how",
		"The client sends an MPA Request over TCP and the server a Reply; each says what it can do and wants "+
			"(RFC 5044, RFC 6581). From then on both send frames, called FPDUs, and nothing else.")
	start := time.Now()
	var err error
	if d.client, d.server, err = d.connect(ctx); err != nil {
		return err
	}
	took := time.Since(start)
	c, s := d.client.ConnectionState(), d.server.ConnectionState()
	row := func(name string, client, server any) { d.Printf("   %-40s %-22v %v\n", name, client, server) }
	row("", d.Bold("client")+pad(d.Style), d.Bold("server"))
	row("address", d.client.LocalAddr(), d.server.LocalAddr())
	row("revision of MPA", c.Revision, s.Revision)
	row("CRC32c on each frame", ui.Word(c.CRC, "yes", "no"), ui.Word(s.CRC, "yes", "no"))
	row("puts Markers into what it sends", ui.Word(c.SendMarkers, "yes", "no"), ui.Word(s.SendMarkers, "yes", "no"))
	row("peer-to-peer (the server may send first)", rtrText(c), rtrText(s))
	row("Reads it serves at once (IRD)", c.IRD, s.IRD)
	row("Reads it has under way at once (ORD)", c.ORD, s.ORD)
	row("largest DDP segment it sends, octets", d.client.Stats().MULPDU, d.server.Stats().MULPDU)
	row("private data from the other", ui.PrivateText(c.PrivateData), ui.PrivateText(s.PrivateData))
	d.Printf("   %s\n", d.Dim("TCP and iWARP connected in "+ui.Round(took).String()))
	return nil
}

// pad makes up for the sequences that style adds to a column of 22.
func pad(styled bool) string {
	if styled {
		return "                "
	}
	return ""
}

func rtrText(s iwarp.ConnectionState) string {
	return ui.Word(s.PeerToPeer, "by "+s.RTR.String(), "no")
}

// recv takes the next message at one end.
func recv(ctx context.Context, c *iwarp.Conn) (iwarp.Message, []byte, error) {
	buf := make([]byte, 256)
	m, err := c.Recv(ctx, buf)
	return m, buf[:m.Length], err
}

// send shows a Send, the operation that both ends know of.
func (d *demo) send(ctx context.Context) error {
	d.heading("Send: a message for a buffer that waits at the peer",
		"Like a datagram, but reliable and in order: it lands whole in a receive buffer that the peer has posted.")
	start := time.Now()
	text := "Hello, this is the client."
	if err := d.client.Send(ctx, []byte(text)); err != nil {
		return err
	}
	_, got, err := recv(ctx, d.server)
	if err != nil {
		return err
	}
	d.timed(toServer, start, "Send of %d octets, received as %q", len(text), got)
	return expect("the server received", string(got), text)
}

const regionSize = 4096

// write shows registering memory, and an RDMA Write into it.
func (d *demo) write(ctx context.Context) error {
	d.heading("RDMA Write: the client writes into the server's memory",
		"The server registers memory and gets an STag, a name for it that cannot be guessed. Whoever knows the STag, "+
			"on "+
			"this connection only, may do there what the server allows. The server makes no call to take the data.")
	memory := make([]byte, regionSize)
	mr, err := d.server.NewMR(memory, iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic)
	if err != nil {
		return err
	}
	d.mr = mr
	d.act(atServer, "registers %d octets for Reads, Writes and atomics: STag %v", regionSize, mr.STag())
	if err := d.advertise(ctx); err != nil {
		return err
	}
	start := time.Now()
	text := "written by the client"
	at := d.remote.Slice(100, uint64(len(text)))
	if err := d.client.RDMAWrite(ctx, []byte(text), at); err != nil {
		return err
	}
	d.timed(toServer, start, "RDMA Write of %d octets at offset %d", len(text), at.TO)
	// A Write shows when a later message has arrived, not before.
	if err := d.client.Send(ctx, []byte("look")); err != nil {
		return err
	}
	if _, _, err = recv(ctx, d.server); err != nil {
		return err
	}
	got := memory[100 : 100+len(text)]
	d.act(toServer, "Send: \"look\" (all that was written before it is in place when it arrives)")
	d.act(atServer, "finds in its memory: %q", got)
	return expect("the memory holds", string(got), text)
}

// advertise sends the server's STag to the client.
func (d *demo) advertise(ctx context.Context) error {
	ad, err := d.mr.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	if err := d.server.Send(ctx, ad); err != nil {
		return err
	}
	_, b, err := recv(ctx, d.client)
	if err != nil {
		return err
	}
	if err := d.remote.UnmarshalBinary(b); err != nil {
		return err
	}
	d.act(toClient, "Send: \"STag %v, offset %d, %d octets\"", d.remote.STag, d.remote.TO, d.remote.Length)
	return nil
}

// read shows an RDMA Read.
func (d *demo) read(ctx context.Context) error {
	d.heading("RDMA Read: the client fetches from the server's memory",
		"The request names the source; the server's side answers by itself, without the server's program.")
	text := "put there by the server"
	copy(d.mr.Bytes()[200:], text) // nobody reads there before it is told
	d.act(atServer, "puts into its memory: %q", text)
	if err := d.server.Send(ctx, fmt.Appendf(nil, "fetch %d octets at offset 200", len(text))); err != nil {
		return err
	}
	_, msg, err := recv(ctx, d.client)
	if err != nil {
		return err
	}
	d.act(toClient, "Send: %q", msg)
	start := time.Now()
	got := make([]byte, len(text))
	at := d.remote.Slice(200, uint64(len(text)))
	if err := d.client.RDMARead(ctx, got, at); err != nil {
		return err
	}
	d.timed(toClient, start, "RDMA Read of %d octets at offset %d: %q", len(got), at.TO, got)
	return expect("the client read", string(got), text)
}

// atomics shows the atomics of RFC 7306.
func (d *demo) atomics(ctx context.Context) error {
	d.heading("Atomics: counting in the server's memory",
		"The word is changed in one step, whoever else is at it, and the client gets what was there (RFC 7306).")
	start := time.Now()
	before, err := d.client.FetchAdd(ctx, d.remote, 41)
	if err != nil {
		return err
	}
	d.timed(toServer, start, "FetchAdd of 41 at offset 0: it was %d", before)
	start = time.Now()
	swapped, err := d.client.CompareSwap(ctx, d.remote, 41, 1000)
	if err != nil {
		return err
	}
	d.timed(toServer, start, "CompareSwap, 1000 if it is 41: it was %d", swapped)
	return errors.Join(expect("before FetchAdd there was", before, 0),
		expect("before CompareSwap there was", swapped, 41))
}

// immediate shows Immediate Data.
func (d *demo) immediate(ctx context.Context) error {
	d.heading("Immediate Data: eight octets that tell of something",
		"A message without a buffer, to say for example which Write is complete (RFC 7306).")
	start := time.Now()
	const v = 0x1122334455667788
	if err := d.client.SendImmediate(ctx, v); err != nil {
		return err
	}
	m, _, err := recv(ctx, d.server)
	if err != nil {
		return err
	}
	d.timed(toServer, start, "Immediate Data, received as %#x", m.Immediate)
	return expect("the server received", m.Immediate, uint64(v))
}

// invalidate shows a Send with Invalidate.
func (d *demo) invalidate(ctx context.Context) error {
	d.heading("Invalidate: the client gives the memory back",
		"A Send with Invalidate is a message that also ends an STag: the server knows that nobody writes there any "+
			"more.")
	start := time.Now()
	if err := d.client.SendInvalidate(ctx, []byte("done with it"), d.remote.STag); err != nil {
		return err
	}
	m, text, err := recv(ctx, d.server)
	if err != nil {
		return err
	}
	d.timed(toServer, start, "Send with Invalidate of STag %v, received as %q", d.remote.STag, text)
	d.act(atServer, "STag %v is valid: %v", m.Invalidated, d.mr.Valid())
	return errors.Join(expect("the message invalidated", m.Invalidated, d.mr.STag()),
		expect("the STag is valid", d.mr.Valid(), false))
}

// refused shows what becomes of an access without right.
func (d *demo) refused(ctx context.Context) error {
	d.heading("Refused: the client tries once more to write there",
		"The server's side refuses, says why in a Terminate message, and ends the connection: after such an error the "+
			"two no longer agree on anything (RFC 5040 section 4.8). The client learns which of its messages it was.")
	before := d.mr.Bytes()[8:]
	want := string(before)
	if err := d.client.RDMAWrite(ctx, []byte("should not get through"), d.remote); err != nil &&
		!errors.Is(err, iwarp.ErrFlushed) {
		return err
	}
	d.act(toServer, "RDMA Write of 22 octets to STag %v, offset %d", d.remote.STag, d.remote.TO)
	for _, c := range []*iwarp.Conn{d.server, d.client} {
		select {
		case <-c.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	var local, remote *iwarp.ProtocolError
	if !errors.As(d.server.Err(), &local) || !errors.As(d.client.Err(), &remote) || !remote.Remote {
		return fmt.Errorf("the Write was not refused: server: %w, client: %w", orNone(d.server.Err()),
			orNone(d.client.Err()))
	}
	d.act(atServer, "%s: %s", d.Red("refuses"), local.Detail)
	d.act(toClient, "%s: %v", d.Red("Terminate"), remote.Code)
	d.act("", "layer %s, error type %d, error code %d", remote.Code.Layer(), remote.Code.Type(), remote.Code.Number())
	d.act("", "echoed header: %s", ui.Echoed(remote))
	d.mr.Close()
	_ = d.disconnect()
	return errors.Join(expect("the server's reason is", local.Code, remote.Code),
		expect("the memory is untouched", string(before), want))
}

// expect is the check behind what the demo claims.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s %v: expected %v", what, got, want)
	}
	return nil
}

func orNone(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}
