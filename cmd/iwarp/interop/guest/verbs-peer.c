/*
 * verbs-peer: one end of an RDMA connection that does what its arguments say.
 *
 *   verbs-peer listen PORT STEP...
 *   verbs-peer connect ADDRESS PORT STEP...
 *
 * Each step prints one line, "STEP -> RESULT". The program does not judge
 * results: its caller does. It ends with 0 after the last step, with 1 when a step
 * waits in vain or cannot be arranged, with 2 when it does not understand a step.
 *
 * Before the connection:
 *   conns:N                  make N connections (1); they share the completion queues
 *   depths:IRD:ORD           for rdma_connect and rdma_accept (1:1)
 *   recvs:COUNT:SIZE[:PARTS] post COUNT receives of SIZE octets on each connection, in PARTS
 *                            pieces (16:4096:1); for all connections together after srq
 *   srq                      the receives belong to a shared receive queue
 *   mr:M:LENGTH:RIGHTS       register memory. M is a letter; RIGHTS are r (remote read),
 *                            w (remote write), o (in another protection domain) or -
 *   start                    connect, or accept
 * After it:
 *   on:N                     what follows is for connection N (0)
 *   fill:M:SEED              write a pattern
 *   check:M+OFFSET+LENGTH:SEED    compare with the pattern, which begins at the region's start
 *   advertise:M              send address (64 bits), STag (32) and length (32), big endian
 *   learn:SLOT               receive the same from the peer; SLOT is a digit
 *   recv[:SEED]              receive a message, and compare it with a pattern
 *   spend                    from now on, recv and learn do not post the receive again
 *   send:LOCAL[:FLAGS]       LOCAL is M+OFFSET+LENGTH, or several with commas between, or -
 *   send-inv:LOCAL:SLOT[:FLAGS]   Send with Invalidate of the STag learnt
 *   write:LOCAL:SLOT+OFFSET[:FLAGS]
 *   read:LOCAL:SLOT+OFFSET[:FLAGS]
 *                            FLAGS are f (fence), i (inline), s (solicited), p (only post)
 *   wait:N                   wait for N work requests that were only posted
 *   arm:any, arm:solicited   ask for an event at the next receive
 *   event:MS                 wait so many milliseconds for that event
 *   limit:N                  ask for an event when fewer than N shared receives are left
 *   async:MS                 wait for an asynchronous event
 *   try:WHAT                 see try_step
 *   caps                     what the device says of itself
 *   gone                     wait for the peer to end the connection
 *   disconnect               end it
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_CONNS = 16, MAX_SGE = 6, MAX_INLINE = 80, DEPTH = 64, PATIENCE = 20000 /* ms */ };

struct region {
	uint8_t *buf;
	size_t length;
	struct ibv_mr *mr;
};

static struct region regions[26], receives;
static struct { uint64_t address; uint32_t stag; } remotes[10];
static struct rdma_cm_id *conns[MAX_CONNS];
static struct rdma_cm_id *listener;
static struct rdma_event_channel *cm;
static struct ibv_context *device;
static struct ibv_pd *pd, *other_pd;
static struct ibv_cq *send_cq, *recv_cq;
static struct ibv_comp_channel *events;
static struct ibv_srq *srq;
static int want_srq, want_conns = 1, ird = 1, ord = 1, current;
static int recv_count = 16, recv_size = 4096, recv_parts = 1, spend;
static const char *step;

static void result(const char *format, ...)
{
	va_list args;

	printf("%s -> ", step);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

__attribute__((noreturn)) static void fail(const char *what)
{
	result("failed: %s: %s", what, strerror(errno));
	exit(1);
}

__attribute__((noreturn)) static void usage(const char *why)
{
	result("bad step: %s", why);
	exit(2);
}

/* ---------------------------------------------------------------- text */

/* field gives the text of a step's field N, counted from 0, or "". */
static const char *field(int n)
{
	static char texts[8][256];
	static int next;
	char *text = texts[next++ % 8];
	const char *from = step;

	for (; n > 0 && from; n--) {
		from = strchr(from, ':');
		if (from)
			from++;
	}
	snprintf(text, sizeof texts[0], "%s", from ? from : "");
	text[strcspn(text, ":")] = 0;
	return text;
}

static long long number(const char *text)
{
	char *end;
	long long n = strtoll(text, &end, 0);

	if (end == text || (*end && !strchr("+,", *end)))
		usage("want a number");
	return n;
}

static struct region *region(const char *text)
{
	if (text[0] < 'a' || text[0] > 'z' || !regions[text[0] - 'a'].mr)
		usage("no such region");
	return &regions[text[0] - 'a'];
}

static int slot(const char *text)
{
	if (text[0] < '0' || text[0] > '9')
		usage("a slot is a digit");
	return text[0] - '0';
}

/* local makes a gather list of M+OFFSET+LENGTH,... */
static int local(const char *text, struct ibv_sge *sge)
{
	int n = 0;

	if (!strcmp(text, "-"))
		return 0;
	for (; text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
		struct region *r = region(text);
		const char *offset = strchr(text, '+');
		const char *length = offset ? strchr(offset + 1, '+') : NULL;

		if (!length || n == MAX_SGE)
			usage("want at most 6 of M+OFFSET+LENGTH");
		sge[n].addr = (uintptr_t)r->buf + number(offset + 1);
		sge[n].length = number(length + 1);
		sge[n].lkey = r->mr->lkey;
		n++;
	}
	return n;
}

/* The pattern's period is longer than a page and no multiple of a segment. */
static uint8_t pattern(int seed, size_t i)
{
	return seed + 7 * i + 13 * (i >> 8) + 31 * (i >> 16);
}

/* differs gives the first octet that is not the pattern's, or -1. */
static long differs(const uint8_t *buf, size_t start, size_t length, int seed)
{
	for (size_t i = 0; i < length; i++)
		if (buf[i] != pattern(seed, start + i))
			return start + i;
	return -1;
}

/* ---------------------------------------------------------------- waiting */

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static int readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) > 0;
}

static struct ibv_wc completion(struct ibv_cq *cq)
{
	int64_t end = now() + PATIENCE;
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc)) {
		if (now() > end) {
			errno = ETIMEDOUT;
			fail("no completion");
		}
		poll(NULL, 0, 1);
	}
	return wc;
}

/* cm_event waits for a connection event. One that was not wanted ends the
 * program, unless wanted is negative: then any is right. */
static struct rdma_cm_event *cm_event(int wanted)
{
	struct rdma_cm_event *event;

	if (!readable(cm->fd, PATIENCE)) {
		errno = ETIMEDOUT;
		fail("no connection event");
	}
	if (rdma_get_cm_event(cm, &event))
		fail("rdma_get_cm_event");
	if (wanted >= 0 && (int)event->event != wanted) {
		errno = event->status < 0 ? -event->status : event->status;
		fail(rdma_event_str(event->event));
	}
	return event;
}

/* ---------------------------------------------------------------- set-up */

static void allocate(struct region *r, size_t length, int access, struct ibv_pd *in)
{
	r->length = length;
	r->buf = aligned_alloc(4096, (length + 4096) & ~(size_t)4095);
	if (!r->buf)
		fail("memory");
	memset(r->buf, 0, length);
	r->mr = ibv_reg_mr(in, r->buf, length, access);
	if (!r->mr)
		fail("ibv_reg_mr");
}

static void open_device(void)
{
	int n;
	struct ibv_context **list = rdma_get_devices(&n);

	if (!list || !n)
		fail("no RDMA device");
	device = list[0];
	pd = ibv_alloc_pd(device);
	other_pd = ibv_alloc_pd(device);
	events = ibv_create_comp_channel(device);
	if (!pd || !other_pd || !events)
		fail("ibv_alloc_pd");
	send_cq = ibv_create_cq(device, DEPTH * MAX_CONNS, NULL, NULL, 0);
	recv_cq = ibv_create_cq(device, DEPTH * MAX_CONNS, NULL, events, 0);
	cm = rdma_create_event_channel();
	if (!send_cq || !recv_cq || !cm)
		fail("ibv_create_cq");
}

static void mr_step(void)
{
	const char *name = field(1), *rights = field(3);
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (*name < 'a' || *name > 'z')
		usage("a region's name is a letter");
	if (strchr(rights, 'r'))
		access |= IBV_ACCESS_REMOTE_READ;
	if (strchr(rights, 'w'))
		access |= IBV_ACCESS_REMOTE_WRITE;
	allocate(&regions[*name - 'a'], number(field(2)), access, strchr(rights, 'o') ? other_pd : pd);
	result("ok");
}

/* Slot i of the receive memory is receive i of all. */
static void post_receive(int i, struct ibv_qp *qp)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = sge, .num_sge = recv_parts }, *bad;
	int part = recv_size / recv_parts;

	for (int n = 0; n < recv_parts; n++) {
		sge[n].addr = (uintptr_t)receives.buf + (size_t)i * recv_size + n * part;
		sge[n].length = n < recv_parts - 1 ? part : recv_size - n * part;
		sge[n].lkey = receives.mr->lkey;
	}
	if (qp ? ibv_post_recv(qp, &wr, &bad) : ibv_post_srq_recv(srq, &wr, &bad))
		fail("posting a receive");
}

static void make_receives(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = recv_count, .max_sge = MAX_SGE } };
	int all = want_srq ? recv_count : recv_count * want_conns;

	allocate(&receives, (size_t)all * recv_size + 1, IBV_ACCESS_LOCAL_WRITE, pd);
	if (!want_srq)
		return;
	srq = ibv_create_srq(pd, &attr);
	if (!srq)
		fail("ibv_create_srq");
	for (int i = 0; i < recv_count; i++)
		post_receive(i, NULL);
}

static void make_qp(int n)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = send_cq, .recv_cq = recv_cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = recv_count ? recv_count : 1, .max_send_sge = MAX_SGE,
			.max_recv_sge = MAX_SGE, .max_inline_data = MAX_INLINE },
	};

	if (rdma_create_qp(conns[n], pd, &attr))
		fail("rdma_create_qp");
	for (int i = 0; !srq && i < recv_count; i++)
		post_receive(n * recv_count + i, conns[n]->qp);
}

static struct rdma_conn_param parameters(void)
{
	return (struct rdma_conn_param){ .responder_resources = ird, .initiator_depth = ord };
}

static void accept_one(int n)
{
	struct rdma_conn_param param = parameters();
	struct rdma_cm_event *event = cm_event(RDMA_CM_EVENT_CONNECT_REQUEST);

	conns[n] = event->id;
	rdma_ack_cm_event(event);
	make_qp(n);
	if (rdma_accept(conns[n], &param))
		fail("rdma_accept");
	rdma_ack_cm_event(cm_event(RDMA_CM_EVENT_ESTABLISHED));
}

static void connect_one(int n, struct sockaddr *to)
{
	struct rdma_conn_param param = parameters();

	if (rdma_create_id(cm, &conns[n], NULL, RDMA_PS_TCP) || rdma_resolve_addr(conns[n], NULL, to, 2000))
		fail("rdma_resolve_addr");
	rdma_ack_cm_event(cm_event(RDMA_CM_EVENT_ADDR_RESOLVED));
	if (rdma_resolve_route(conns[n], 2000))
		fail("rdma_resolve_route");
	rdma_ack_cm_event(cm_event(RDMA_CM_EVENT_ROUTE_RESOLVED));
	make_qp(n);
	if (rdma_connect(conns[n], &param))
		fail("rdma_connect");
	rdma_ack_cm_event(cm_event(RDMA_CM_EVENT_ESTABLISHED));
}

static void start_step(struct sockaddr *to)
{
	make_receives();
	if (listener && (rdma_bind_addr(listener, to) || rdma_listen(listener, MAX_CONNS)))
		fail("rdma_listen");
	for (int n = 0; n < want_conns; n++) {
		if (listener)
			accept_one(n);
		else
			connect_one(n, to);
	}
	result("ok");
}

/* ---------------------------------------------------------------- work */

static void show_send(struct ibv_wc wc)
{
	if (wc.status != IBV_WC_SUCCESS)
		result("%s", ibv_wc_status_str(wc.status));
	else
		result("success");
}

static void post(struct ibv_send_wr *wr, const char *flags)
{
	struct ibv_send_wr *bad;
	int status;

	wr->send_flags |= IBV_SEND_SIGNALED;
	for (; *flags; flags++) {
		switch (*flags) {
		case 'f': wr->send_flags |= IBV_SEND_FENCE; break;
		case 'i': wr->send_flags |= IBV_SEND_INLINE; break;
		case 's': wr->send_flags |= IBV_SEND_SOLICITED; break;
		case 'p': break;
		default: usage("flags are f, i, s, p");
		}
	}
	status = ibv_post_send(conns[current]->qp, wr, &bad);
	if (status) {
		errno = status < 0 ? -status : status;
		fail("ibv_post_send");
	}
}

static void finish(const char *flags)
{
	if (strchr(flags, 'p'))
		result("posted");
	else
		show_send(completion(send_cq));
}

static void send_step(void)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = local(field(1), sge), .opcode = IBV_WR_SEND };

	post(&wr, field(2));
	finish(field(2));
}

static void send_inv_step(void)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = local(field(1), sge), .opcode = IBV_WR_SEND_WITH_INV };

	wr.invalidate_rkey = remotes[slot(field(2))].stag;
	/* siw's library takes the STag from here. */
	wr.wr.rdma.rkey = wr.invalidate_rkey;
	post(&wr, field(3));
	finish(field(3));
}

/* A Write or a Read. */
static void rdma_step(enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = local(field(1), sge), .opcode = opcode };
	const char *remote = field(2), *offset = strchr(remote, '+');

	wr.wr.rdma.rkey = remotes[slot(remote)].stag;
	wr.wr.rdma.remote_addr = remotes[slot(remote)].address + (offset ? number(offset + 1) : 0);
	post(&wr, field(3));
	finish(field(3));
}

static void wait_step(void)
{
	int n = number(field(1));

	for (int i = 0; i < n; i++) {
		struct ibv_wc wc = completion(send_cq);

		if (wc.status != IBV_WC_SUCCESS) {
			result("%s after %d", ibv_wc_status_str(wc.status), i);
			return;
		}
	}
	result("success");
}

static void advertise_step(void)
{
	struct region *r = region(field(1));
	uint8_t message[16];
	uint32_t *words = (uint32_t *)message;
	struct ibv_sge sge = { .addr = (uintptr_t)message, .length = sizeof message };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	words[0] = htonl((uintptr_t)r->buf >> 32);
	words[1] = htonl((uintptr_t)r->buf);
	words[2] = htonl(r->mr->rkey);
	words[3] = htonl(r->length);
	wr.send_flags = IBV_SEND_INLINE;
	post(&wr, "");
	if (completion(send_cq).status != IBV_WC_SUCCESS)
		fail("sending");
	result("ok");
}

/* owner gives the number of the connection that a completion belongs to. */
static int owner(struct ibv_wc *wc)
{
	int n = 0;

	while (n < want_conns - 1 && conns[n]->qp->qp_num != wc->qp_num)
		n++;
	return n;
}

/* again gives the receive of a completion back to the peer's messages. */
static void again(struct ibv_wc *wc)
{
	if (!spend)
		post_receive(wc->wr_id, srq ? NULL : conns[owner(wc)]->qp);
}

/* receive waits for a message, tells of anything but success, and gives its memory. */
static uint8_t *receive(struct ibv_wc *wc)
{
	*wc = completion(recv_cq);
	if (wc->status == IBV_WC_SUCCESS)
		return receives.buf + wc->wr_id * recv_size;
	result("%s", ibv_wc_status_str(wc->status));
	return NULL;
}

static void learn_step(void)
{
	int n = slot(field(1));
	struct ibv_wc wc;
	uint32_t words[4];
	uint8_t *message = receive(&wc);

	if (!message)
		return;
	if (wc.byte_len != sizeof words)
		usage("no address came");
	memcpy(words, message, sizeof words);
	remotes[n].address = (uint64_t)ntohl(words[0]) << 32 | ntohl(words[1]);
	remotes[n].stag = ntohl(words[2]);
	again(&wc);
	result("ok");
}

static void recv_step(void)
{
	struct ibv_wc wc;
	uint8_t *message = receive(&wc);
	const char *seed = field(1);
	char compared[64] = "";

	if (!message)
		return;
	if (*seed) {
		long where = differs(message, 0, wc.byte_len, number(seed));

		if (where < 0)
			snprintf(compared, sizeof compared, ", as expected");
		else
			snprintf(compared, sizeof compared, ", differs at %ld", where);
	}
	again(&wc);
	result("%u octets on %d%s%s", wc.byte_len, owner(&wc), compared, wc.wc_flags & IBV_WC_WITH_INV ? ", invalidated" : "");
}

static void fill_step(void)
{
	struct region *r = region(field(1));
	int seed = number(field(2));

	for (size_t i = 0; i < r->length; i++)
		r->buf[i] = pattern(seed, i);
	result("ok");
}

static void check_step(void)
{
	struct region *r = region(field(1));
	struct ibv_sge sge[MAX_SGE];
	long where;

	if (local(field(1), sge) != 1)
		usage("want M+OFFSET+LENGTH");
	where = differs((uint8_t *)(uintptr_t)sge[0].addr, sge[0].addr - (uintptr_t)r->buf, sge[0].length, number(field(2)));
	if (where < 0)
		result("as expected");
	else
		result("differs at %ld", where);
}

/* ---------------------------------------------------------------- events */

static void event_step(void)
{
	struct ibv_cq *cq;
	void *context;

	if (!readable(events->fd, number(field(1)))) {
		result("none");
		return;
	}
	if (ibv_get_cq_event(events, &cq, &context))
		fail("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	result("event");
}

static void async_step(void)
{
	struct ibv_async_event event;

	if (!readable(device->async_fd, number(field(1)))) {
		result("none");
		return;
	}
	if (ibv_get_async_event(device, &event))
		fail("ibv_get_async_event");
	result("%s", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

static void limit_step(void)
{
	struct ibv_srq_attr attr = { .srq_limit = number(field(1)) };

	if (ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT))
		fail("ibv_modify_srq");
	result("ok");
}

static void gone_step(void)
{
	struct rdma_cm_event *event = cm_event(-1);

	result("%s", rdma_event_str(event->event));
	rdma_ack_cm_event(event);
}

/* try_step asks for what this device may not have, and tells the outcome. */
static void try_step(void)
{
	static const struct {
		const char *name;
		enum ibv_wr_opcode opcode;
	} works[] = {
		{ "local-inv", IBV_WR_LOCAL_INV },
		{ "send-imm", IBV_WR_SEND_WITH_IMM },
		{ "write-imm", IBV_WR_RDMA_WRITE_WITH_IMM },
		{ "fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD },
		{ "compare-swap", IBV_WR_ATOMIC_CMP_AND_SWP },
	};
	const char *what = field(1);

	errno = 0;
	if (!strcmp(what, "alloc-mw")) {
		result("%s", ibv_alloc_mw(pd, IBV_MW_TYPE_2) ? "possible" : strerror(errno));
		return;
	}
	for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
		struct ibv_send_wr wr = { .opcode = works[i].opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;
		int status;

		if (strcmp(what, works[i].name))
			continue;
		status = ibv_post_send(conns[current]->qp, &wr, &bad);
		result("%s", status ? strerror(status < 0 ? -status : status) : "possible");
		return;
	}
	usage("nothing of that name");
}

static void caps_step(void)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(device, &attr))
		fail("ibv_query_device");
	result("atomics %s, windows %d, SGE %d, for Reads %d, IRD %d, ORD %d", attr.atomic_cap ? "yes" : "no", attr.max_mw, attr.max_sge,
	       attr.max_sge_rd, attr.max_qp_rd_atom, attr.max_qp_init_rd_atom);
}

static void run(struct sockaddr *to)
{
	const char *name = field(0);

#define STEP(text) (!strcmp(name, text))
	if STEP("conns") { want_conns = number(field(1)); result("ok"); }
	else if STEP("depths") { ird = number(field(1)); ord = number(field(2)); result("ok"); }
	else if STEP("recvs") {
		recv_count = number(field(1));
		recv_size = number(field(2));
		recv_parts = *field(3) ? number(field(3)) : 1;
		result("ok");
	}
	else if STEP("srq") { want_srq = 1; result("ok"); }
	else if STEP("mr") mr_step();
	else if STEP("start") start_step(to);
	else if STEP("on") { current = number(field(1)); result("ok"); }
	else if STEP("fill") fill_step();
	else if STEP("check") check_step();
	else if STEP("advertise") advertise_step();
	else if STEP("learn") learn_step();
	else if STEP("recv") recv_step();
	else if STEP("spend") { spend = 1; result("ok"); }
	else if STEP("send") send_step();
	else if STEP("send-inv") send_inv_step();
	else if STEP("write") rdma_step(IBV_WR_RDMA_WRITE);
	else if STEP("read") rdma_step(IBV_WR_RDMA_READ);
	else if STEP("wait") wait_step();
	else if STEP("arm") { result(ibv_req_notify_cq(recv_cq, !strcmp(field(1), "solicited")) ? "failed" : "ok"); }
	else if STEP("event") event_step();
	else if STEP("limit") limit_step();
	else if STEP("async") async_step();
	else if STEP("try") try_step();
	else if STEP("caps") caps_step();
	else if STEP("gone") gone_step();
	else if STEP("disconnect") { rdma_disconnect(conns[current]); result("ok"); }
	else usage("no such step");
#undef STEP
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *to;
	int listens = argc > 2 && !strcmp(argv[1], "listen"), first = listens ? 3 : 4;

	setvbuf(stdout, NULL, _IOLBF, 0);
	step = "arguments";
	if (!listens && !(argc > 3 && !strcmp(argv[1], "connect")))
		usage("want listen PORT STEP... or connect ADDRESS PORT STEP...");
	if (getaddrinfo(listens ? "0.0.0.0" : argv[2], argv[first - 1], &hints, &to))
		usage("address");
	step = "device";
	open_device();
	if (listens && rdma_create_id(cm, &listener, NULL, RDMA_PS_TCP))
		fail("rdma_create_id");
	for (int i = first; i < argc; i++) {
		step = argv[i];
		run(to->ai_addr);
	}
	return 0;
}
