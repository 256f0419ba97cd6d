package protocol_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-iwarp/iwarp/protocol"
)

func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  protocol.Error
		want string
	}{
		{
			err: protocol.Error{
				Code: protocol.DDPTaggedInvalidSTag, Detail: "STag 0x11223344: no such STag",
				Section: "RFC 5041 section 7.1",
			},
			want: "DDP tagged buffer: invalid STag (1/1/00): STag 0x11223344: no such STag [RFC 5041 section 7.1]",
		},
		{
			err:  protocol.Error{Code: protocol.MPAConnectionLost, Err: io.ErrUnexpectedEOF},
			want: "unexpected EOF; MPA: TCP connection closed, terminated or lost (2/0/01)",
		},
		{
			err: protocol.Error{
				Code: protocol.MPAConnectionLost, Detail: "aborted", Section: "RFC 5044 section 8",
				Err: errors.New("iwarp: why"),
			},
			want: "aborted: why [RFC 5044 section 8]; MPA: TCP connection closed, terminated or lost (2/0/01)",
		},
		{
			err: protocol.Error{
				Code: protocol.MPAStartup, Section: "RFC 5044 section 7.1.2", Err: errors.New("nothing came"),
			},
			want: "nothing came [RFC 5044 section 7.1.2] (2/0/04)",
		},
		{
			err:  protocol.Error{Code: protocol.MPACRC, Remote: true, Err: io.EOF},
			want: "peer reports MPA: CRC mismatch (2/0/02): EOF",
		},
		{
			err: protocol.Error{Code: protocol.RDMAPOpcode, Remote: true},
			want: "peer reports that it does not support the operation: RDMAP remote operation: unexpected opcode " +
				"(0/2/06)",
		},
		{err: protocol.Error{Code: 0xfeff}, want: "layer 15: unassigned error (15/14/ff)"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

func TestErrorIsByCodeAndSide(t *testing.T) {
	err := fmt.Errorf("receive: %w", &protocol.Error{
		Code: protocol.MPACRC, Detail: "detail", Section: "section", Offender: &protocol.Offender{SegmentLength: 5},
	})
	if !errors.Is(err, &protocol.Error{Code: protocol.MPACRC}) {
		t.Error("the same code on the same side must match, whatever the text")
	}
	if errors.Is(err, &protocol.Error{Code: protocol.MPACRC, Remote: true}) {
		t.Error("an error found here matches one that the peer found")
	}
	if errors.Is(err, &protocol.Error{Code: protocol.MPAMarker}) {
		t.Error("another code matches")
	}
	if errors.Is(err, net.ErrClosed) {
		t.Error("a CRC error is not a closed connection")
	}
}

func TestErrorUnwrap(t *testing.T) {
	lost := &protocol.Error{Code: protocol.MPAConnectionLost, Err: io.ErrUnexpectedEOF}
	if !errors.Is(lost, net.ErrClosed) || !errors.Is(lost, io.ErrUnexpectedEOF) {
		t.Error("a lost connection is its cause and net.ErrClosed")
	}
	if n := len((&protocol.Error{Code: protocol.MPAConnectionLost, Err: net.ErrClosed}).Unwrap()); n != 1 {
		t.Errorf("net.ErrClosed is unwrapped %d times, want once", n)
	}
	if errs := (&protocol.Error{Code: protocol.MPACRC}).Unwrap(); len(errs) != 0 {
		t.Errorf("an error without a cause unwraps to %v", errs)
	}
}

func TestCodeOf(t *testing.T) {
	inner := &protocol.Error{Code: protocol.DDPUntaggedMO}
	if code, ok := protocol.CodeOf(fmt.Errorf("a: %w", errors.Join(io.EOF, inner))); !ok || code != inner.Code {
		t.Errorf("got %v, %v, want %v", code, ok, inner.Code)
	}
	if code, ok := protocol.CodeOf(io.EOF); ok {
		t.Errorf("io.EOF has code %v", code)
	}
	if _, ok := protocol.CodeOf(nil); ok {
		t.Error("nil has a code")
	}
}

func ExampleError() {
	err := fmt.Errorf("write: %w", &protocol.Error{
		Code:   protocol.DDPTaggedBounds,
		Remote: true,
		Detail: "caused by RDMA Write",
	})
	var perr *protocol.Error
	if errors.As(err, &perr) && perr.Remote {
		fmt.Println(perr.Code)
		fmt.Println(strings.TrimPrefix(err.Error(), "write: "))
	}
	// Output:
	// DDP tagged buffer: base or bounds violation (1/1/01)
	// peer reports DDP tagged buffer: base or bounds violation (1/1/01): caused by RDMA Write
}

// Shows: EXT-1.1-02
func TestUnsupportedByPeer(t *testing.T) {
	for _, tt := range []struct {
		err  *protocol.Error
		want bool
	}{
		{err: &protocol.Error{Code: protocol.RDMAPOpcode, Remote: true}, want: true},
		{err: &protocol.Error{Code: protocol.RDMAPOpcode}, want: false}, // the peer's mistake, not its limit
		{err: &protocol.Error{Code: protocol.RDMAPVersion, Remote: true}, want: false},
	} {
		if got := errors.Is(tt.err, errors.ErrUnsupported); got != tt.want {
			t.Errorf("%v: is ErrUnsupported: %v, want %v", tt.err, got, tt.want)
		}
	}
}
