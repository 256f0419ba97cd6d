package rdmap_test

import (
	"fmt"
	"testing"

	"github.com/go-iwarp/iwarp/ddp"
	"github.com/go-iwarp/iwarp/rdmap"
)

// BenchmarkStream takes messages from Post to Completed and Delivered, through both
// engines and an LLP that only copies. An operation is one message.
func BenchmarkStream(b *testing.B) {
	const depth = 64
	for _, op := range []rdmap.Op{rdmap.OpWrite, rdmap.OpSend, rdmap.OpRead} {
		for _, size := range []int{64, 4096} {
			b.Run(fmt.Sprintf("%v/%d", op, size), func(b *testing.B) {
				table := ddp.NewTable(0)
				region, err := table.Register(ddp.RegionConfig{
					Buf: make([]byte, size), Access: allRights, PD: 1, Stream: 2,
				})
				if err != nil {
					b.Fatal(err)
				}
				var streams [2]*rdmap.Stream
				var ulps [2]counter
				var llps [2]loopLLP
				for i := range streams {
					ulps[i].sg[0] = make([]byte, size)
					llps[i].mulpdu = 64768
					streams[i] = rdmap.NewStream(rdmap.Config{
						Table: table, Peer: ddp.Peer{PD: 1, Stream: ddp.StreamID(i + 1)}, Recv: &ulps[i],
						Handler: &ulps[i],
						IRD:     depth, ORD: depth, Initiator: i == 0,
					})
				}
				llps[0].to, llps[1].to = streams[1], streams[0]
				list := make([]rdmap.SendWR, depth)
				for i := range list {
					list[i] = rdmap.SendWR{
						Op: op, SG: [][]byte{make([]byte, size)}, Remote: rdmap.RemoteBuffer{STag: region.STag()},
					}
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for n := 0; n < b.N; n += depth {
					if _, err := streams[0].PostAll(list); err != nil {
						b.Fatal(err)
					}
					for streams[0].Outstanding() > 0 {
						for i, s := range streams {
							if _, err := s.Transmit(&llps[i], false); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
				if llps[0].bad != nil || llps[1].bad != nil {
					b.Fatal(llps[0].bad, llps[1].bad)
				}
			})
		}
	}
}
