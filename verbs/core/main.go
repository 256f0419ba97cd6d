// Command core is the library libiwarpcore.so (go build -buildmode=c-shared), which the
// preloaded libiwarpverbs.so of ../shim loads when a program opens an RDMA device. It
// only carries calls across: what happens is in ../internal.
package main

/*
#include <stddef.h>
#include <stdint.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <rdma/rdma_user_rxe.h>
// What ../internal/ring and uabi take for granted.
_Static_assert(sizeof(struct ib_uverbs_wc) == 48, "wc");
_Static_assert(offsetof(struct rxe_send_wqe, dma) == 184, "dma of a send");
_Static_assert(offsetof(struct rxe_send_wqe, dma) + 24 == 208, "sge of a send");
_Static_assert(offsetof(struct rxe_recv_wqe, dma) + 24 == 40, "sge of a receive");
_Static_assert(offsetof(struct rxe_queue_buf, producer_index) == 128, "producer");
_Static_assert(offsetof(struct rxe_queue_buf, consumer_index) == 256, "consumer");
_Static_assert(offsetof(struct rxe_queue_buf, data) == 384, "data");
_Static_assert(sizeof(struct ib_uverbs_query_device_resp) == 176, "query_device");
_Static_assert(sizeof(struct ib_uverbs_ex_query_device_resp) == 304, "query_device_ex");
_Static_assert(sizeof(struct ib_uverbs_query_qp_resp) == 128, "query_qp");
_Static_assert(sizeof(struct ib_uverbs_modify_qp) == 112, "modify_qp");
_Static_assert(sizeof(struct ib_uverbs_qp_attr) == 144, "qp_attr");
_Static_assert(sizeof(struct rdma_ucm_event_resp) == 336, "event");
_Static_assert(sizeof(struct rdma_ucm_conn_param) == 272, "conn_param");
_Static_assert(sizeof(struct rdma_ucm_query_addr_resp) == 280, "query_addr");
*/
import "C"

import (
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-iwarp/iwarp/verbs/internal/ucma"
	"github.com/go-iwarp/iwarp/verbs/internal/uverbs"
)

func main() {}

// Kinds of devices, as in the shim.
const (
	kindUverbs = 1
	kindUCMA   = 2
)

// file is an open device.
type file interface {
	Command(b []byte) unix.Errno
	Close()
}

// bell is where a program sleeps that spins on an empty queue; the shim's memory.
type bell struct{ seq, waiters uint32 }

const futexWakePrivate = 1 | 128

// ring lets programs look again.
func (b *bell) ring() {
	if b == nil {
		return
	}
	atomic.AddUint32(&b.seq, 1)
	if atomic.LoadUint32(&b.waiters) != 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.seq)), futexWakePrivate, 1<<30)
	}
}

var theBell *bell // set before the first open

// devices are made at the first open.
var devices = sync.OnceValues(func() (*ucma.Manager, error) {
	var logger *slog.Logger
	if os.Getenv("IWARP_VERBS_DEBUG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	d, err := uverbs.NewDevice(uverbs.Config{Logger: logger, Bell: theBell.ring})
	if err != nil {
		return nil, err
	}
	verbs = d
	return ucma.NewManager(d), nil
})

var verbs *uverbs.Device

// files are the open files, by the number that the shim knows them by.
var files [1 << 16]atomic.Pointer[opened]

type opened struct {
	file
	verbs *uverbs.File // nil: rdma_cm
}

var lastFile atomic.Uint32

//export iwarpBell
func iwarpBell(b unsafe.Pointer) { theBell = (*bell)(b) }

//export iwarpOpen
func iwarpOpen(kind C.int, number *C.uint32_t) C.int {
	m, err := devices()
	if err != nil {
		return -C.int(unix.EIO)
	}
	var o opened
	var fd int
	switch kind {
	case kindUverbs:
		o.verbs, fd, err = verbs.Open()
		o.file = o.verbs
	case kindUCMA:
		o.file, fd, err = m.Open()
	default:
		return -C.int(unix.ENODEV)
	}
	if err != nil {
		return -C.int(unix.EMFILE)
	}
	for range files {
		n := lastFile.Add(1) % uint32(len(files))
		if files[n].CompareAndSwap(nil, &o) {
			*number = C.uint32_t(n)
			return C.int(fd)
		}
	}
	o.Close()
	_ = unix.Close(fd)
	return -C.int(unix.EMFILE)
}

func fileOf(number C.uint32_t) *opened { return files[uint32(number)%uint32(len(files))].Load() }

//export iwarpWrite
func iwarpWrite(number C.uint32_t, buf unsafe.Pointer, n C.size_t) C.long {
	f := fileOf(number)
	if f == nil {
		return -C.long(unix.EBADF)
	}
	return -C.long(f.Command(unsafe.Slice((*byte)(buf), int(n))))
}

//export iwarpClose
func iwarpClose(number C.uint32_t) {
	if f := files[uint32(number)%uint32(len(files))].Swap(nil); f != nil {
		f.Close()
	}
}

//export iwarpCloseDescriptor
func iwarpCloseDescriptor(number C.uint32_t, fd C.int) {
	if f := fileOf(number); f != nil && f.verbs != nil {
		f.verbs.CloseDescriptor(int(fd))
	}
}

//export iwarpDoorbell
func iwarpDoorbell(number, qp C.uint32_t) C.int {
	f := fileOf(number)
	if f == nil || f.verbs == nil {
		return -C.int(unix.EBADF)
	}
	return -C.int(f.verbs.Doorbell(uint32(qp)))
}

//export iwarpPoll
func iwarpPoll(number, cq C.uint32_t) C.int {
	f := fileOf(number)
	if f == nil || f.verbs == nil {
		return 0
	}
	return C.int(f.verbs.Poll(uint32(cq)))
}
