package vectors_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/go-iwarp/iwarp"
	"github.com/go-iwarp/iwarp/iwarptest"
	"github.com/go-iwarp/iwarp/protocol"
)

// octets returns the octets of a vector.
func octets(t *testing.T, name string) []byte {
	t.Helper()
	b, err := hex.DecodeString(vector[name])
	if err != nil || len(b) == 0 {
		t.Fatalf("vector %q: %v", name, err)
	}
	return b
}

// withSTag puts an STag into an FPDU, at so many octets from its start.
func withSTag(fpdu []byte, at int, stag iwarp.STag) []byte {
	binary.BigEndian.PutUint32(fpdu[at:], uint32(stag))
	return iwarptest.FixCRC(fpdu)
}

// Where an STag stands in an FPDU.
const (
	atTagged     = 2 + 2           // of a tagged segment, and what a Send invalidates
	atReadSource = 2 + 18 + 4 + 12 // of a Read Request
	atAtomic     = 2 + 18 + 8      // of an Atomic Request
)

type result struct {
	c   *iwarp.Conn
	err error
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// start runs the endpoint's startup beside the test, which plays the peer.
func start(t *testing.T, initiator bool, cfg *iwarp.Config) (*iwarptest.Peer, <-chan result) {
	t.Helper()
	mine, theirs := iwarptest.Pipe(nil)
	up := make(chan result, 1)
	ctx := testContext(t)
	go func() {
		run := iwarp.Server
		if initiator {
			run = iwarp.Client
		}
		c, err := run(ctx, mine, cfg)
		up <- result{c, err}
	}()
	return iwarptest.NewPeer(t, theirs), up
}

func connected(t *testing.T, up <-chan result) *iwarp.Conn {
	t.Helper()
	r := <-up
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(r.c.Abort)
	return r.c
}

// server returns a responder with a peer that has started with the request.
func server(t *testing.T, request []byte, cfg *iwarp.Config) (*iwarptest.Peer, *iwarp.Conn) {
	t.Helper()
	p, up := start(t, false, cfg)
	p.Initiate("startup", request)
	return p, connected(t, up)
}

// client returns an initiator whose peer has replied.
func client(t *testing.T, reply []byte, cfg *iwarp.Config) (*iwarptest.Peer, *iwarp.Conn) {
	t.Helper()
	p, up := start(t, true, cfg)
	p.Respond("startup", reply)
	return p, connected(t, up)
}

func noCRC(t *testing.T) *iwarp.Device {
	t.Helper()
	d, err := iwarp.NewDevice(&iwarp.DeviceConfig{CRCSuppression: &iwarp.CRCSuppression{Protection: "a test"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	base  = 0x1000
	guard = 64
)

// region registers 64 octets at TO 0x1000, 0 to 0x3f, between guards.
func region(t *testing.T, c *iwarp.Conn) (mr *iwarp.MR, untouched func()) {
	t.Helper()
	all := make([]byte, guard+64+guard)
	for i := range 64 {
		all[guard+i] = byte(i)
	}
	before := bytes.Clone(all)
	mr, err := c.PD().NewMR(all[guard:guard+64:guard+64], iwarp.RemoteRead|iwarp.RemoteWrite|iwarp.RemoteAtomic,
		&iwarp.MROptions{QP: c.QP(), Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mr.Close() })
	return mr, func() {
		t.Helper()
		if !bytes.Equal(all, before) {
			t.Errorf("memory has changed: %x", all)
		}
	}
}

func receive(t *testing.T, c *iwarp.Conn, want iwarp.Message, text string) {
	t.Helper()
	buf := make([]byte, 4096)
	m, err := c.Recv(testContext(t), buf)
	if err != nil {
		t.Fatal(err)
	}
	want.Length = len(text)
	if want.Op == 0 {
		want.Op = iwarp.OpRecv
	}
	if m != want || string(buf[:m.Length]) != text {
		t.Fatalf("received %+v %q, want %+v %q", m, buf[:m.Length], want, text)
	}
}

func TestStartupSent(t *testing.T) {
	for _, v := range []struct {
		want string
		cfg  iwarp.Config
	}{
		{want: "req_v1", cfg: iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}}},
		{
			want: "req_v1_m_pd",
			cfg:  iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1, Markers: true}, PrivateData: []byte("abc")},
		},
		{
			want: "req_v2_p2p",
			cfg: iwarp.Config{
				IRD: 16, ORD: 8, MPA: iwarp.MPAConfig{RTR: iwarp.RTRSend | iwarp.RTRWrite | iwarp.RTRRead},
				PrivateData: []byte("x"),
			},
		},
	} {
		p, up := start(t, true, &v.cfg)
		p.WantRaw(v.want, octets(t, v.want))
		p.Abort()
		<-up
	}
	for _, v := range []struct {
		request, want string
		cfg           iwarp.Config
	}{
		{request: "req_v1", want: "rep_v1", cfg: iwarp.Config{}},
		{
			request: "req_v2_p2p", want: "rep_v2_p2p",
			cfg: iwarp.Config{IRD: 8, ORD: 16, MPA: iwarp.MPAConfig{RTR: iwarp.RTRRead}},
		},
	} {
		p, up := start(t, false, &v.cfg)
		p.SendRaw(octets(t, v.request))
		p.WantRaw(v.want, octets(t, v.want))
		connected(t, up)
	}
	mine, theirs := iwarptest.Pipe(nil)
	p := iwarptest.NewPeer(t, theirs)
	p.SendRaw(octets(t, "req_v1_m_pd"))
	r, err := iwarp.ServerRequest(testContext(t), mine, nil)
	if err != nil || string(r.PrivateData()) != "abc" {
		t.Fatal(err)
	}
	if _, err := r.Reject(testContext(t), []byte("busy")); err != nil {
		t.Fatal(err)
	}
	p.WantRaw("rejected", octets(t, "rep_v1_reject"))
}

func TestStartupTolerated(t *testing.T) {
	for _, name := range []string{"req_v1", "req_v1_m_pd", "req_v2_cs", "req_r_set", "req_res_set"} {
		t.Run(name, func(t *testing.T) {
			p, c := server(t, octets(t, name), nil)
			p.SendRaw(p.Out.Frame(iwarptest.Send(1, []byte("hello"))))
			receive(t, c, iwarp.Message{}, "hello")
		})
	}
}

func TestStartupRefused(t *testing.T) {
	for _, v := range []struct {
		name      string
		initiator bool
	}{
		{name: "bad_key"},
		{name: "req_to_initiator", initiator: true},
		{name: "rev3"},
		{name: "pd_513"},
		{name: "v2_s_short"},
		{name: "pd_truncated"},
	} {
		t.Run(v.name, func(t *testing.T) {
			p, up := start(t, v.initiator, nil)
			if v.initiator {
				p.WantStartup("the initiator starts", "MPA ID Req Frame")
			}
			p.SendRaw(octets(t, v.name))
			if v.name == "pd_truncated" {
				p.CloseWrite()
			}
			r := <-up
			var perr *iwarp.ProtocolError
			if !errors.As(r.err, &perr) || perr.Code != protocol.MPAStartup &&
				perr.Code != protocol.MPAConnectionLost || perr.Remote {
				t.Errorf("error %v", r.err)
			}
			if v.name != "pd_truncated" && perr != nil && perr.Code != protocol.MPAStartup {
				t.Errorf("code %v", perr.Code)
			}
			if b, err := io.ReadAll(p.Conn); len(b) > 0 {
				t.Errorf("the peer got %x, %v: want the connection closed and nothing said", b, err)
			}
		})
	}
}

// TestGoldenReceived plays the whole conversation of the vectors against a
// responder, which must place, answer and deliver it.
func TestGoldenReceived(t *testing.T) {
	p, c := server(t, octets(t, "req_v1"), nil)
	mr, _ := region(t, c)
	inv, err := c.NewMR(make([]byte, 8), iwarp.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer inv.Close()

	p.SendRaw(octets(t, "send_hello"))
	receive(t, c, iwarp.Message{}, "hello")

	p.SendRaw(withSTag(octets(t, "read_req"), atReadSource, mr.STag()))
	p.WantRaw("Read Response", octets(t, "read_rsp"))
	p.SendRaw(octets(t, "read_req0"))
	p.WantRaw("zero-length Read Response", iwarptest.FPDU(iwarptest.ReadResponse(1, 0, nil)))
	p.WantIdle("no more")

	p.SendRaw(withSTag(octets(t, "write"), atTagged, mr.STag()), octets(t, "write0"), octets(t, "send0"))
	receive(t, c, iwarp.Message{}, "")
	if got := string(mr.Bytes()[:13]); got != "direct data !" {
		t.Errorf("the Write placed %q", got)
	}

	p.SendRaw(withSTag(octets(t, "send_inv"), atTagged, inv.STag()))
	receive(t, c, iwarp.Message{Invalidated: inv.STag()}, "bye")
	if inv.Valid() {
		t.Error("the STag is still valid")
	}
	p.SendRaw(octets(t, "send_se"))
	receive(t, c, iwarp.Message{Solicited: true}, "ding")
	inv.Rekey(0x5a)
	p.SendRaw(withSTag(octets(t, "send_se_inv"), atTagged, inv.STag()))
	receive(t, c, iwarp.Message{Solicited: true, Invalidated: inv.STag()}, "dong")
	p.SendRaw(octets(t, "imm"), octets(t, "imm_se"))
	receive(t, c, iwarp.Message{Op: iwarp.OpRecvImmediate, Immediate: 0x0102030405060708}, "")
	receive(t, c, iwarp.Message{Op: iwarp.OpRecvImmediate, Immediate: 0x1112131415161718, Solicited: true}, "")

	binary.NativeEndian.PutUint64(mr.Bytes()[8:], 0x25)
	p.SendRaw(withSTag(octets(t, "fetchadd_req"), atAtomic, mr.STag()))
	p.WantRaw("Atomic Response", octets(t, "atomic_rsp"))
	p.SendRaw(withSTag(octets(t, "cmpswap_req"), atAtomic, mr.STag()))
	p.WantRaw("Atomic Response", iwarptest.FPDU(iwarptest.AtomicResponse(2, 0x78, 0x2a)))
	c.CloseWrite()
	p.WantEOF("graceful end")
}

// TestGoldenSent has an initiator send the vectors.
func TestGoldenSent(t *testing.T) {
	p, c := client(t, octets(t, "rep_v1"), &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
	ctx := testContext(t)
	post := func(name string, wr iwarp.SendWR) {
		t.Helper()
		if err := c.QP().PostSend(wr); err != nil {
			t.Fatal(err)
		}
		p.WantRaw(name, octets(t, name))
	}
	sg := func(s string) [][]byte { return [][]byte{[]byte(s)} }
	const stag = 0x11223344
	post("send_hello", iwarp.SendWR{Op: iwarp.OpSend, SG: sg("hello")})
	post("write",
		iwarp.SendWR{Op: iwarp.OpWrite, SG: sg("direct data !"), Remote: iwarp.RemoteBuffer{STag: stag, TO: base}})
	post("write0", iwarp.SendWR{Op: iwarp.OpWrite, Remote: iwarp.RemoteBuffer{STag: 1}})
	post("send0", iwarp.SendWR{Op: iwarp.OpSend})
	post("send_inv", iwarp.SendWR{Op: iwarp.OpSendInvalidate, SG: sg("bye"), Invalidate: stag})
	post("send_se", iwarp.SendWR{Op: iwarp.OpSend, SG: sg("ding"), Solicited: true})
	post("send_se_inv",
		iwarp.SendWR{Op: iwarp.OpSendInvalidate, SG: sg("dong"), Invalidate: 0x55667788, Solicited: true})
	post("imm", iwarp.SendWR{Op: iwarp.OpImmediate, Immediate: 0x0102030405060708})
	post("imm_se", iwarp.SendWR{Op: iwarp.OpImmediate, Immediate: 0x1112131415161718, Solicited: true})

	got := make(chan error, 1)
	go func() {
		was, err := c.FetchAdd(ctx, iwarp.RemoteBuffer{STag: stag, TO: base + 8}, 5)
		if err == nil && was != 0x25 {
			err = errors.New("the answer is another number")
		}
		got <- err
	}()
	// Beside the Request Identifier and MSN it is the vector.
	want := octets(t, "fetchadd_req")
	ulpdu := p.Frame("Atomic Request")
	copy(want[2+10:], ulpdu[10:14])
	copy(want[2+22:], ulpdu[22:26])
	if !bytes.Equal(ulpdu, want[2:len(want)-4]) {
		t.Errorf("Atomic Request %x, want %x", ulpdu, want[2:len(want)-4])
	}
	p.Send(iwarptest.AtomicResponse(1, binary.BigEndian.Uint32(ulpdu[22:]), 0x25))
	if err := <-got; err != nil {
		t.Error(err)
	}

	p, c = client(t, iwarptest.Reply(iwarptest.FlagM|iwarptest.FlagC, 1, nil),
		&iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
	post("send_hello_marker0", iwarp.SendWR{Op: iwarp.OpSend, SG: sg("hello")})
	p, c = client(t, iwarptest.Reply(iwarptest.FlagM|iwarptest.FlagC, 1, nil),
		&iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
	post("rfc5044_fig5", iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{make([]byte, 24)}})
	p, c = client(t, iwarptest.Reply(iwarptest.FlagM|iwarptest.FlagC, 1, nil),
		&iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
	if err := c.Send(ctx, make([]byte, beforeFig6)); err != nil {
		t.Fatal(err)
	}
	p.WantFrame("filler", iwarptest.Send(1, make([]byte, beforeFig6)))
	post("rfc5044_fig6", iwarp.SendWR{Op: iwarp.OpSend, SG: [][]byte{make([]byte, 24)}})
	p, c = client(t, iwarptest.Reply(0, 1, nil), &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}, Device: noCRC(t)})
	post("send_hello_nocrc", iwarp.SendWR{Op: iwarp.OpSend, SG: sg("hello")})
}

// beforeFig6 is the length of a Send whose marked FPDU ends where that of RFC 5044
// figure 6 starts, 0x1ec octets into the stream.
const beforeFig6 = 0x1ec - 4 - 2 - 18 - 4

func TestTolerated(t *testing.T) {
	hello := func(t *testing.T, c *iwarp.Conn) { receive(t, c, iwarp.Message{}, "hello") }
	zeros := func(t *testing.T, c *iwarp.Conn) { receive(t, c, iwarp.Message{}, string(make([]byte, 24))) }
	for _, v := range []struct {
		name    string
		markers bool
		noCRC   bool
		after   int // length of a Send that comes first, if not 0
		want    func(t *testing.T, c *iwarp.Conn)
	}{
		{name: "pad_nonzero", want: hello},
		{name: "marker_reserved_nonzero", markers: true, want: zeros},
		{name: "fpduptr_low_bits", markers: true, after: beforeFig6, want: zeros},
		{name: "crc_off_garbage", noCRC: true, want: hello},
		{name: "ddp_rsvd_set", want: hello},
		{name: "rdmap_rsv_set", want: hello},
		{name: "rsvdulp_set", want: hello},
		{name: "write0_bad_stag", want: nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			cfg := &iwarp.Config{MPA: iwarp.MPAConfig{Markers: v.markers}}
			request := octets(t, "req_v1")
			if v.noCRC {
				cfg.Device = noCRC(t)
				request = iwarptest.Request(0, 1, nil)
			}
			p, c := server(t, request, cfg)
			if v.after > 0 {
				p.Send(iwarptest.Send(1, make([]byte, v.after)))
				receive(t, c, iwarp.Message{}, string(make([]byte, v.after)))
			}
			p.SendRaw(octets(t, v.name))
			if v.want != nil {
				v.want(t, c)
			}
			p.WantIdle("it is accepted")
			c.CloseWrite()
			p.WantEOF("graceful end")
			p.CloseWrite()
			<-c.Done()
			if err := c.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTerminateReceived has the peer end the connection: the caller is told the
// triple, and nothing is answered but a FIN.
func TestTerminateReceived(t *testing.T) {
	for name, code := range map[string]protocol.Code{
		"term_rdma_prot": 0x0100, "term_rdma_op": 0x0206, "term_ddp_tagged": 0x1101, "term_ddp_untagged": 0x1202,
		"term_mpa_crc": 0x2002, "term_mpa_ird": 0x2006, "term_local": 0x0000,
		"term_local_anycode": 0x0000, "term_r_no_header": 0x0109, "term_reserved_set": 0x2002,
	} {
		t.Run(name, func(t *testing.T) {
			p, c := client(t, octets(t, "rep_v1"), &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
			if name == "term_mpa_ird" { // an initiator alone reports it, and first of all
				p, c = server(t, octets(t, "req_v1"), nil)
			}
			p.SendRaw(octets(t, name))
			p.WantEOF("no answer to a Terminate")
			p.CloseWrite()
			<-c.Done()
			var perr *iwarp.ProtocolError
			if err := c.Err(); !errors.As(err, &perr) || perr.Code != code || !perr.Remote {
				t.Errorf("error %v, want the peer's %v", err, code)
			}
		})
	}
	t.Run("term_3", func(t *testing.T) {
		p, c := client(t, octets(t, "rep_v1"), &iwarp.Config{MPA: iwarp.MPAConfig{Revision: 1}})
		p.SendRaw(octets(t, "term_3"))
		p.WantEOF("no answer to a Terminate")
		p.CloseWrite()
		<-c.Done()
		if err := c.Err(); err == nil || err == io.EOF { // a bare io.EOF would be a graceful end
			t.Errorf("error %v", err)
		}
	})
}

func TestRefused(t *testing.T) {
	for _, v := range []struct {
		name  string
		code  protocol.Code
		marks bool
		after int
		stag  int // where the region's STag goes, if not 0
		fin   bool
	}{
		{name: "bad_crc", code: protocol.MPACRC},
		{name: "wrong_fpduptr", code: protocol.MPAMarker, marks: true, after: beforeFig6},
		{name: "short_ulpdu", code: protocol.DDPLocalCatastrophic},
		{name: "short_untagged", code: protocol.DDPLocalCatastrophic},
		{name: "dv0_untagged", code: protocol.DDPUntaggedVersion},
		{name: "dv2_tagged", code: protocol.DDPTaggedVersion},
		{name: "to_wrap", code: protocol.DDPTaggedTOWrap, stag: atTagged},
		{name: "qn7", code: protocol.DDPUntaggedQN},
		{name: "msn0", code: protocol.DDPUntaggedMSN},
		{name: "msn_gap", code: protocol.DDPUntaggedMSN},
		{name: "mo_nonzero", code: protocol.DDPUntaggedMO},
		{name: "rv2", code: protocol.RDMAPVersion},
		{name: "opcode15", code: protocol.RDMAPOpcode},
		{name: "send_tagged", code: protocol.RDMAPOpcode},
		{name: "write_untagged", code: protocol.RDMAPOpcode},
		{name: "send_qn1", code: protocol.RDMAPOpcode},
		{name: "read_req_27", code: protocol.RDMAPOperationUnspecified},
		{name: "imm_7", code: protocol.RDMAPOperationUnspecified},
		{name: "imm_9", code: protocol.DDPUntaggedTooLong},
		{name: "atomic_unaligned", code: protocol.RDMAPStreamCatastrophic, stag: atAtomic},
		{name: "atomic_op1", code: protocol.RDMAPOpcode, stag: atAtomic},
		{name: "after_eof_mid", code: protocol.MPAConnectionLost, fin: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			p, c := server(t, octets(t, "req_v1"), &iwarp.Config{MPA: iwarp.MPAConfig{Markers: v.marks}})
			mr, untouched := region(t, c)
			// A responder may say nothing, not even Terminate, before it has one valid
			// FPDU.
			if v.after > 0 {
				p.Send(iwarptest.Send(1, make([]byte, v.after)))
			} else {
				p.SendRaw(octets(t, "write0"))
			}
			b := octets(t, v.name)
			if v.stag > 0 {
				b = withSTag(b, v.stag, mr.STag())
			}
			p.SendRaw(b)
			if v.fin {
				p.CloseWrite()
			}
			p.WantTerminate("refused", uint16(v.code))
			p.WantEOF("the connection ends")
			if !v.fin {
				p.CloseWrite()
			}
			<-c.Done()
			var perr *iwarp.ProtocolError
			if err := c.Err(); !errors.As(err, &perr) || perr.Code != v.code || perr.Remote {
				t.Errorf("error %v, want this end's %v", err, v.code)
			}
			untouched()
		})
	}
}
