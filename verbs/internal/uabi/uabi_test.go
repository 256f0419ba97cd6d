package uabi_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/go-iwarp/iwarp/verbs/internal/uabi"
)

// codec is what a struct of the package can do.
type codec struct {
	name   string
	size   int // in C
	decode func([]byte) (any, error)
}

func of[T any](name string, size int) codec {
	return codec{name, size, func(b []byte) (any, error) { return uabi.Decode[T](b) }}
}

// The sizes are those of the C structs, by sizeof; parts of a struct that this package has
// apart are noted.
var codecs = []codec{
	of[uabi.Header]("ib_uverbs_cmd_hdr", 8),
	of[uabi.ExtendedHeader]("ib_uverbs_ex_cmd_hdr", 16),
	of[uabi.GetContextResp]("ib_uverbs_get_context_resp", 8),
	of[uabi.QueryDeviceResp]("ib_uverbs_query_device_resp", 176),
	of[uabi.QueryDeviceExResp]("ib_uverbs_ex_query_device_resp", 304),
	of[uabi.QueryPortCmd]("ib_uverbs_query_port", 16),
	of[uabi.QueryPortResp]("ib_uverbs_query_port_resp", 40),
	of[uabi.RegMRCmd]("ib_uverbs_reg_mr", 40),
	of[uabi.RegMRResp]("ib_uverbs_reg_mr_resp", 12),
	of[uabi.ReregMRCmd]("ib_uverbs_rereg_mr", 48),
	of[uabi.ReregMRResp]("ib_uverbs_rereg_mr_resp", 8),
	of[uabi.AllocMWCmd]("ib_uverbs_alloc_mw", 16),
	of[uabi.CreateCQCmd]("ib_uverbs_create_cq", 32),
	of[uabi.CreateCQExCmd]("ib_uverbs_ex_create_cq", 32),
	of[uabi.CreateCQResp]("ib_uverbs_create_cq_resp", 8),
	of[uabi.RingInfo]("mminfo", 16),
	of[uabi.ResizeCQCmd]("ib_uverbs_resize_cq", 16),
	of[uabi.ResizeCQResp]("ib_uverbs_resize_cq_resp with mminfo", 24),
	of[uabi.DestroyCmd]("ib_uverbs_destroy_cq", 16),
	of[uabi.DestroyCQResp]("ib_uverbs_destroy_cq_resp", 8),
	of[uabi.ReqNotifyCQCmd]("ib_uverbs_req_notify_cq", 8),
	of[uabi.CreateQPCmd]("ib_uverbs_create_qp without response", 48),
	of[uabi.CreateQPExtra]("the rest of ib_uverbs_ex_create_qp", 16),
	of[uabi.CreateQPResp]("ib_uverbs_create_qp_resp", 32),
	of[uabi.QueryQPCmd]("ib_uverbs_query_qp", 16),
	of[uabi.QueryQPResp]("ib_uverbs_query_qp_resp", 128),
	of[uabi.ModifyQPCmd]("ib_uverbs_modify_qp", 112),
	of[uabi.CreateSRQCmd]("ib_uverbs_create_srq", 32),
	of[uabi.CreateSRQResp]("ib_uverbs_create_srq_resp with rxe_create_srq_resp", 40),
	of[uabi.ModifySRQCmd]("ib_uverbs_modify_srq with rxe_modify_srq_cmd", 24),
	of[uabi.QuerySRQResp]("ib_uverbs_query_srq_resp", 16),
	of[uabi.AsyncEvent]("ib_uverbs_async_event_desc", 16),
	of[uabi.CompEvent]("ib_uverbs_comp_event_desc", 8),
	of[uabi.CMCreateIDCmd]("rdma_ucm_create_id", 24),
	of[uabi.CMIDCmd]("rdma_ucm_destroy_id", 16),
	of[uabi.CMBindIPCmd]("rdma_ucm_bind_ip", 40),
	of[uabi.CMBindCmd]("rdma_ucm_bind", 136),
	of[uabi.CMResolveIPCmd]("rdma_ucm_resolve_ip", 64),
	of[uabi.CMResolveAddrCmd]("rdma_ucm_resolve_addr", 272),
	of[uabi.CMQueryCmd]("rdma_ucm_query", 16),
	of[uabi.CMQueryRouteResp]("rdma_ucm_query_route_resp", 208),
	of[uabi.CMQueryAddrResp]("rdma_ucm_query_addr_resp", 280),
	of[uabi.ConnParam]("rdma_ucm_conn_param", 272),
	of[uabi.CMConnectCmd]("rdma_ucm_connect without ece", 280),
	of[uabi.CMAcceptCmd]("rdma_ucm_accept without ece", 288),
	of[uabi.CMRejectCmd]("rdma_ucm_reject", 264),
	of[uabi.CMInitQPAttrCmd]("rdma_ucm_init_qp_attr", 16),
	of[uabi.QPAttr]("ib_uverbs_qp_attr", 144),
	of[uabi.CMSetOptionCmd]("rdma_ucm_set_option", 24),
	of[uabi.EventResp]("rdma_ucm_event_resp", 336),
}

// octets are n different from their neighbours.
func octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// Every struct has the size of C's, takes every octet of it, and refuses what is shorter.
func TestCodecs(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			b := octets(c.size)
			v, err := c.decode(append(b, 0xee))
			if err != nil {
				t.Fatal(err)
			}
			if n := binary.Size(v); n != c.size {
				t.Fatalf("%d octets, in C %d", n, c.size)
			}
			got := uabi.Append(nil, v)
			for i := range got {
				// An octet that no field has comes back as 0.
				if got[i] != b[i] && got[i] != 0 {
					t.Errorf("octet %d is 0x%02x, was 0x%02x", i, got[i], b[i])
				}
			}
			for n := range c.size {
				var short *uabi.TooShortError
				if _, err := c.decode(b[:n]); !errors.As(err, &short) || short.Want != c.size || short.Has != n {
					t.Fatalf("%d octets: %v", n, err)
				}
			}
		})
	}
}

// Fields lie where C has them, for the structs in which the order is not plain.
func TestOffsets(t *testing.T) {
	if uabi.Order.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the table is little endian")
	}
	at := func(n, off int, b ...byte) []byte {
		all := make([]byte, n)
		copy(all[off:], b)
		return all
	}
	for _, tt := range []struct {
		name string
		v    any
		want []byte
	}{
		{"device: max_qp", uabi.QueryDeviceResp{MaxQP: 7}, at(176, 52, 7)},
		{"device: max_srq_sge", uabi.QueryDeviceResp{MaxSRQSGE: 7}, at(176, 164, 7)},
		{"device: phys_port_cnt", uabi.QueryDeviceResp{Ports: 7}, at(176, 171, 7)},
		{"port: state", uabi.QueryPortResp{State: 7}, at(40, 26, 7)},
		{"port: link_layer", uabi.QueryPortResp{LinkLayer: 7}, at(40, 37, 7)},
		{"create_qp: type", uabi.CreateQPCmd{Type: 7}, at(48, 45, 7)},
		{"query_qp: state", uabi.QueryQPResp{State: 7}, at(128, 108, 7)},
		{"query_qp: sq_sig_all", uabi.QueryQPResp{SignalAll: 7}, at(128, 122, 7)},
		{"modify_qp: handle", uabi.ModifyQPCmd{Handle: 7}, at(112, 64, 7)},
		{"modify_qp: state", uabi.ModifyQPCmd{State: 7}, at(112, 96, 7)},
		{"conn_param: private_data_len", uabi.ConnParam{PrivateLen: 7}, at(272, 264, 7)},
		{"conn_param: initiator_depth", uabi.ConnParam{InitiatorDepth: 7}, at(272, 267, 7)},
		{"connect: id", uabi.CMConnectCmd{ID: 7}, at(280, 272, 7)},
		{"query_route: port_num", uabi.CMQueryRouteResp{Port: 7}, at(208, 196, 7)},
		{"query_addr: dst_addr", uabi.CMQueryAddrResp{Dst: [128]uint8{7}}, at(280, 144, 7)},
		{"qp_attr: qp_access_flags", uabi.QPAttr{Access: 7}, at(144, 36, 7)},
		{"event: status", uabi.EventResp{Status: 7}, at(336, 16, 7)},
	} {
		if got := uabi.Append(nil, tt.v); !bytes.Equal(got, tt.want) {
			t.Errorf("%s: % x, want % x", tt.name, got, tt.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for i := range codecs {
		f.Add(uint8(i), octets(codecs[i].size))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		c := codecs[int(which)%len(codecs)]
		v, err := c.decode(b)
		if (err == nil) != (len(b) >= c.size) {
			t.Fatalf("%s of %d octets: %v", c.name, len(b), err)
		}
		if err == nil && len(uabi.Append(nil, v)) != c.size {
			t.Fatalf("%s does not come back", c.name)
		}
	})
}
