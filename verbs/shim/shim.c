// libiwarpverbs.so: RDMA devices in user space, for LD_PRELOAD.
//
// The distribution's libibverbs, librdmacm and librxe stay as they are. They speak to the
// kernel by commands that they write to /dev/infiniband/uverbs0 and rdma_cm, and by mmap
// of uverbs0. This library answers open, write, stat and close for these two, and hands the
// commands to libiwarpcore.so, which it loads at the first such open: a program that
// daemonises first forks without a Go runtime.
//
// Of descriptors the kernel knows, nothing has to be caught: that of uverbs0 is a memfd in
// which the queues lie, so that mmap works; that of rdma_cm is an eventfd, so that poll
// works; ioctl fails with ENOTTY, and rdma-core then writes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

// What a descriptor is. The core knows the file by its number.
enum { NONE, UVERBS, UCMA, EVENTS, DEAD };
#define MAXFD 65536
#define MAXFILE 65536
static _Atomic uint32_t table[MAXFD]; // kind << 24 | number of the file
static _Atomic uint32_t refs[MAXFILE]; // descriptors of a file: dup makes more

static inline uint32_t entry(int fd)
{
	return (unsigned)fd < MAXFD ? atomic_load_explicit(&table[fd], memory_order_acquire) : 0;
}
#define KIND(e) ((e) >> 24)
#define NUMBER(e) ((e) & 0xffffff)

static struct {
	int (*open)(int kind, uint32_t *number);
	long (*write)(uint32_t number, const void *buf, size_t n);
	void (*close)(uint32_t number);
	void (*close_descriptor)(uint32_t number, int fd);
	int (*doorbell)(uint32_t number, uint32_t qp);
	int (*poll)(uint32_t number, uint32_t cq);
	void (*bell)(void *);
} core;

// The C library's own functions.
static struct {
	int (*open)(const char *, int, ...);
	int (*open64)(const char *, int, ...);
	ssize_t (*write)(int, const void *, size_t);
	int (*close)(int);
	int (*fstat)(int, struct stat *);
	int (*stat)(const char *, struct stat *);
	int (*socket)(int, int, int);
	int (*accept4)(int, struct sockaddr *, socklen_t *, int);
	int (*dup)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*fcntl)(int, int, ...);
	int (*close_range)(unsigned, unsigned, int);
	struct ibv_context *(*open_device)(struct ibv_device *);
} real;

static void *find(void **f, const char *name)
{
	if (!*f)
		*f = dlsym(RTLD_NEXT, name);
	return *f;
}

#define REAL(name) ((__typeof__(real.name))find((void **)&real.name, #name))

// Completions ring the bell; a poll that has found nothing for long sleeps on it.
static struct {
	_Atomic uint32_t seq, waiters;
} bell;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded;

// The child has no Go runtime, and the parent's queues are none of its business.
static void forked(void)
{
	loaded = 0;
	for (int i = 0; i < MAXFD; i++)
		if (atomic_load_explicit(&table[i], memory_order_relaxed))
			atomic_store_explicit(&table[i], DEAD << 24, memory_order_relaxed);
}

static void load(void)
{
	char path[4096];
	const char *env = getenv("IWARP_VERBS_CORE");
	Dl_info me;

	path[0] = 0;
	if (env) {
		snprintf(path, sizeof path, "%s", env);
	} else if (dladdr((void *)load, &me)) {
		const char *slash = strrchr(me.dli_fname, '/');
		int n = slash ? slash - me.dli_fname + 1 : 0;
		snprintf(path, sizeof path, "%.*slibiwarpcore.so", n, me.dli_fname);
	}
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		fprintf(stderr, "iwarp verbs: %s\n", dlerror());
		return;
	}
	core.open = dlsym(h, "iwarpOpen");
	core.write = dlsym(h, "iwarpWrite");
	core.close = dlsym(h, "iwarpClose");
	core.close_descriptor = dlsym(h, "iwarpCloseDescriptor");
	core.doorbell = dlsym(h, "iwarpDoorbell");
	core.poll = dlsym(h, "iwarpPoll");
	core.bell = dlsym(h, "iwarpBell");
	if (!core.open || !core.write || !core.close || !core.close_descriptor || !core.doorbell || !core.poll || !core.bell) {
		fprintf(stderr, "iwarp verbs: %s is of another version\n", path);
		return;
	}
	core.bell(&bell);
	pthread_atfork(NULL, NULL, forked);
	loaded = 1;
}

static int device(const char *path)
{
	if (!path || strncmp(path, "/dev/infiniband/", 16))
		return NONE;
	if (!strcmp(path + 16, "uverbs0"))
		return UVERBS;
	if (!strcmp(path + 16, "rdma_cm"))
		return UCMA;
	return NONE;
}

static int open_device(int kind)
{
	uint32_t number;

	pthread_once(&once, load);
	if (!loaded) {
		errno = ENXIO;
		return -1;
	}
	int fd = core.open(kind, &number);
	if (fd < 0) {
		errno = -fd;
		return -1;
	}
	if (fd >= MAXFD) {
		core.close(number);
		REAL(close)(fd);
		errno = EMFILE;
		return -1;
	}
	atomic_store(&refs[number], 1);
	atomic_store_explicit(&table[fd], kind << 24 | number, memory_order_release);
	return fd;
}

#define OPEN(name)                                                             \
	int name(const char *path, int flags, ...)                             \
	{                                                                      \
		int kind = device(path);                                       \
		if (kind)                                                      \
			return open_device(kind);                              \
		mode_t mode = 0;                                               \
		if (flags & (O_CREAT | O_TMPFILE)) {                           \
			va_list ap;                                            \
			va_start(ap, flags);                                   \
			mode = va_arg(ap, mode_t);                             \
			va_end(ap);                                            \
		}                                                              \
		return REAL(name)(path, flags, mode);                          \
	}
OPEN(open)
OPEN(open64)

#define CMD_GET_CONTEXT 0
#define CMD_CREATE_COMP_CHANNEL 17
#define CMD_POST_SEND 28
#define CM_GET_EVENT 12

static ssize_t answer(long r, size_t n)
{
	if (r >= 0)
		return n;
	errno = -r;
	return -1;
}

// The answer to a command has a descriptor in front, which is to be known when it is
// closed.
static void remember(const void *buf, uint32_t number)
{
	uint64_t at;
	memcpy(&at, (const char *)buf + 8, 8);
	int fd = *(int32_t *)(uintptr_t)at;
	if ((unsigned)fd < MAXFD)
		atomic_store(&table[fd], EVENTS << 24 | number);
}

static ssize_t write_uverbs(uint32_t number, const void *buf, size_t n)
{
	uint32_t cmd[5];
	memcpy(cmd, buf, n < sizeof cmd ? n : sizeof cmd);
	if (cmd[0] == CMD_POST_SEND && n >= sizeof cmd)
		return answer(core.doorbell(number, cmd[4]), n);
	long r = core.write(number, buf, n);
	if (r >= 0 && n >= 16 && (cmd[0] == CMD_GET_CONTEXT || cmd[0] == CMD_CREATE_COMP_CHANNEL))
		remember(buf, number);
	return answer(r, n);
}

// The wait for an event is here, and not in Go, so that signals and pthread_cancel end it.
static ssize_t write_ucma(int fd, uint32_t number, const void *buf, size_t n)
{
	uint32_t cmd;
	memcpy(&cmd, buf, sizeof cmd);
	for (;;) {
		long r = core.write(number, buf, n);
		if (r != -EAGAIN || cmd != CM_GET_EVENT)
			return answer(r, n);
		int flags = REAL(fcntl)(fd, F_GETFL);
		if (flags < 0 || flags & O_NONBLOCK)
			return answer(-EAGAIN, n);
		struct pollfd p = { .fd = fd, .events = POLLIN };
		if (poll(&p, 1, -1) < 0)
			return -1;
	}
}

ssize_t write(int fd, const void *buf, size_t n)
{
	uint32_t e = entry(fd);
	switch (KIND(e)) {
	case UVERBS:
	case UCMA:
		if (n < 8)
			return answer(-EINVAL, n);
		return KIND(e) == UVERBS ? write_uverbs(NUMBER(e), buf, n) : write_ucma(fd, NUMBER(e), buf, n);
	case DEAD:
		return answer(-EIO, n);
	}
	return REAL(write)(fd, buf, n);
}

// forget is what closing a descriptor does here.
static void forget(int fd)
{
	uint32_t e = entry(fd);
	if (!e)
		return;
	atomic_store(&table[fd], 0);
	switch (KIND(e)) {
	case EVENTS:
		core.close_descriptor(NUMBER(e), fd);
		break;
	case UVERBS:
	case UCMA:
		if (atomic_fetch_sub(&refs[NUMBER(e)], 1) == 1)
			core.close(NUMBER(e));
	}
}

int close(int fd)
{
	forget(fd);
	return REAL(close)(fd);
}

int close_range(unsigned first, unsigned last, int flags)
{
#ifdef CLOSE_RANGE_CLOEXEC
	if (!(flags & CLOSE_RANGE_CLOEXEC))
#endif
		for (unsigned fd = first; fd <= last && fd < MAXFD; fd++)
			forget(fd);
	if (!REAL(close_range)) {
		errno = ENOSYS;
		return -1;
	}
	return real.close_range(first, last, flags);
}

// duplicated makes fd another descriptor of the file of from.
static int duplicated(int from, int fd)
{
	uint32_t e = entry(from);
	if (fd < 0 || fd >= MAXFD || fd == from || !e)
		return fd;
	if (KIND(e) == EVENTS) { // its pipe ends with the file now
		atomic_store(&table[from], 0);
		return fd;
	}
	if (KIND(e) != DEAD)
		atomic_fetch_add(&refs[NUMBER(e)], 1);
	atomic_store(&table[fd], e);
	return fd;
}

int dup(int fd)
{
	return duplicated(fd, REAL(dup)(fd));
}

int dup2(int from, int to)
{
	if (from != to)
		forget(to);
	return duplicated(from, REAL(dup2)(from, to));
}

int dup3(int from, int to, int flags)
{
	if (from != to)
		forget(to);
	return duplicated(from, REAL(dup3)(from, to, flags));
}

static int control(int fd, int cmd, void *arg)
{
	int r = REAL(fcntl)(fd, cmd, arg);
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? duplicated(fd, r) : r;
}

#define FCNTL(name)                                                            \
	int name(int fd, int cmd, ...)                                         \
	{                                                                      \
		va_list ap;                                                    \
		va_start(ap, cmd);                                             \
		void *arg = va_arg(ap, void *);                                \
		va_end(ap);                                                    \
		return control(fd, cmd, arg);                                  \
	}
FCNTL(fcntl)
FCNTL(fcntl64)

static void fake(int kind, struct stat *st)
{
	st->st_mode = S_IFCHR | 0666;
	st->st_rdev = kind == UVERBS ? makedev(231, 192) : makedev(10, 58);
}

static int stat_fd(int fd, struct stat *st)
{
	uint32_t e = entry(fd);
	int r = REAL(fstat)(fd, st);
	if (!r && (KIND(e) == UVERBS || KIND(e) == UCMA))
		fake(KIND(e), st);
	return r;
}

static int stat_path(const char *path, struct stat *st)
{
	int kind = device(path);
	if (!kind)
		return REAL(stat)(path, st);
	memset(st, 0, sizeof *st);
	fake(kind, st);
	return 0;
}

int fstat(int fd, struct stat *st) { return stat_fd(fd, st); }
int stat(const char *path, struct stat *st) { return stat_path(path, st); }
#if defined(__x86_64__) || defined(__aarch64__)
int fstat64(int fd, struct stat64 *st) { return stat_fd(fd, (struct stat *)st); }
int stat64(const char *path, struct stat64 *st) { return stat_path(path, (struct stat *)st); }
#endif

// librspreload, if it is preloaded too, comes behind this library. It knows neither the
// flags of socket, with which it leaves the socket to the kernel, nor accept4.
static int rsockets(void)
{
	Dl_info next;
	return dladdr((void *)REAL(socket), &next) && next.dli_fname && strstr(next.dli_fname, "librspreload");
}

// flagged gives a descriptor the flags of socket and accept4.
static int flagged(int fd, int flags)
{
	if (fd >= 0 && flags & SOCK_NONBLOCK)
		REAL(fcntl)(fd, F_SETFL, (void *)(intptr_t)O_NONBLOCK);
	if (fd >= 0 && flags & SOCK_CLOEXEC)
		REAL(fcntl)(fd, F_SETFD, (void *)(intptr_t)FD_CLOEXEC);
	return fd;
}

int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == 20 /* NETLINK_RDMA */) {
		errno = EPROTONOSUPPORT; // so that rdma-core looks into SYSFS_PATH
		return -1;
	}
	int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (!flags || !rsockets())
		return REAL(socket)(domain, type, protocol);
	return flagged(REAL(socket)(domain, type & ~flags, protocol), flags);
}

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int c = REAL(accept4)(fd, addr, len, flags);
	if (c >= 0 || errno != ENOTSOCK || !rsockets())
		return c;
	return flagged(accept(fd, addr, len), flags);
}

// Polling. A program that spins on an empty queue has one of the processors to itself,
// and those that are to fill the queue may need it. So after a few empty polls in a
// row, one reads the connections itself as long as that brings something, and else sleeps
// until the next completion of the process, for a bounded time.
static int (*provider_poll)(struct ibv_cq *, int, struct ibv_wc *);

enum {
	FREE_POLLS = 16, // that cost nothing: some 200 ns
	HOT_MAX = 16, // how sure a thread may be that reading is worth it
	HOT_AGAIN = 64, // sleeps after which it is tried again
	BULK = 16384, // octets: whoever gets so many at a time need not have them soon
	SPIN_NS = 50000,
	SLEEP_NS = 100000,
};

static __thread struct {
	unsigned empty, sleeps;
	int hot;
	int64_t since; // of the spin
	int known;
} me;

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int poll_hot(struct ibv_cq *cq, int n, struct ibv_wc *wc, uint32_t number)
{
	int64_t t = now();
	if (!me.since)
		me.since = t;
	int came = core.poll(number, cq->handle);
	if (came >= BULK)
		me.hot--;
	else if (came > 0) {
		me.since = t;
		if (me.hot < HOT_MAX)
			me.hot++;
	}
	int r = provider_poll(cq, n, wc);
	if (r == 0 && t - me.since > SPIN_NS) {
		me.hot -= 2;
		me.since = 0;
	} else if (r == 0)
		sched_yield();
	return r;
}

static int poll_asleep(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	uint32_t seq = atomic_load(&bell.seq);
	int r = provider_poll(cq, n, wc);
	if (r)
		return r;
	struct timespec t = { .tv_nsec = SLEEP_NS };
	atomic_fetch_add(&bell.waiters, 1);
	syscall(SYS_futex, &bell.seq, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seq, &t, NULL, 0);
	atomic_fetch_sub(&bell.waiters, 1);
	if (++me.sleeps % HOT_AGAIN == 0)
		me.hot = 2;
	return provider_poll(cq, n, wc);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int r = provider_poll(cq, n, wc);
	if (r) {
		me.empty = 0;
		me.since = 0;
		return r;
	}
	if (++me.empty < FREE_POLLS)
		return 0;
	uint32_t e = entry(cq->context->cmd_fd);
	if (KIND(e) != UVERBS)
		return 0;
	if (!me.known) {
		me.known = 1;
		me.hot = HOT_MAX / 2;
	}
	int err = errno;
	r = me.hot > 0 ? poll_hot(cq, n, wc, NUMBER(e)) : poll_asleep(cq, n, wc);
	errno = err;
	if (r)
		me.empty = 0;
	return r;
}

// The table of functions in ibv_context is part of libibverbs' public ABI: ibv_poll_cq is
// inline and calls through it.
struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	if (!real.open_device)
		real.open_device = dlsym(RTLD_NEXT, "ibv_open_device");
	if (!real.open_device) {
		errno = ENOSYS;
		return NULL;
	}
	struct ibv_context *ctx = real.open_device(dev);
	if (ctx && KIND(entry(ctx->cmd_fd)) == UVERBS && !getenv("IWARP_VERBS_SPIN")) {
		provider_poll = ctx->ops.poll_cq;
		ctx->ops.poll_cq = poll_cq;
	}
	return ctx;
}
