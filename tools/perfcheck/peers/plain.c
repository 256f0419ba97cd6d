// plain measures plain TCP, as the baseline that needs no language's runtime.
//
//	cc -O2 -o plain plain.c
//	plain ADDRESS                            the server: prints its port, ends with its standard input
//	plain ADDRESS PORT stream SIZE SECONDS   writes of SIZE octets, reads of up to 1 MiB: prints GB/s (1e9 octets)
//	plain ADDRESS PORT ping SIZE SECONDS     SIZE octets there and back, over and over: prints, in nanoseconds, the
//	plain ADDRESS PORT spin SIZE SECONDS     median, the 99th and the 99.9th percentile of half a round trip, and the
//	                                         processor time of both ends for it; spin never sleeps
//
// With PIN=1 in the environment it runs on the last processor that it may use. Both ends use cubic where they may.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { max = 16 << 20, read_max = 1 << 20, times_max = 4 << 20 };

// What the client tells first.
struct order {
	char mode; // 's' stream, 'p' ping, 'w' spin
	uint32_t size;
};

static char *buf;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int64_t cpu(void)
{
	struct rusage r;
	getrusage(RUSAGE_SELF, &r);
	return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000ll + (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000ll;
}

static void put(int fd, const void *b, size_t n)
{
	for (const char *p = b; n > 0;) {
		ssize_t w = write(fd, p, n);
		if (w < 0 && errno != EINTR)
			fail("write");
		if (w > 0) {
			p += w;
			n -= w;
		}
	}
}

// get reads exactly n octets, and returns 0 where the stream ends before.
static int get(int fd, void *b, size_t n, int spin)
{
	for (char *p = b; n > 0;) {
		ssize_t r = recv(fd, p, n, spin ? MSG_DONTWAIT : 0);
		if (r == 0)
			return 0;
		if (r < 0 && errno != EINTR && errno != EAGAIN)
			fail("read");
		if (r > 0) {
			p += r;
			n -= r;
		}
	}
	return 1;
}

static void set_up(int fd)
{
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

// serve does the server's part of one connection and tells the client what came, or the processor time.
static void serve(int fd)
{
	struct order o;
	int64_t told = 0;
	if (!get(fd, &o, sizeof o, 0) || o.size == 0 || o.size > max)
		return;
	if (o.mode == 's') {
		for (ssize_t n; (n = read(fd, buf, read_max)) != 0; told += n)
			if (n < 0)
				return;
	} else {
		int64_t start = cpu();
		// The first octet of a message says whether it is the last.
		do {
			if (!get(fd, buf, o.size, o.mode == 'w'))
				return;
			put(fd, buf, o.size);
		} while (buf[0] == 0);
		told = cpu() - start;
	}
	put(fd, &told, sizeof told);
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 6) {
		fprintf(stderr, "usage: plain ADDRESS [PORT stream|ping|spin SIZE SECONDS]\n");
		return 2;
	}
	if (getenv("PIN")) {
		cpu_set_t set;
		sched_getaffinity(0, sizeof set, &set);
		int last = CPU_SETSIZE - 1;
		while (last > 0 && !CPU_ISSET(last, &set))
			last--;
		CPU_ZERO(&set);
		CPU_SET(last, &set);
		sched_setaffinity(0, sizeof set, &set);
	}
	buf = aligned_alloc(2 << 20, max);
	madvise(buf, max, MADV_HUGEPAGE); // "iwarp bench" does so too
	memset(buf, 0, max);

	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = argc > 2 ? htons(atoi(argv[2])) : 0};
	inet_pton(AF_INET, argv[1], &addr.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	set_up(fd);
	if (argc == 2) {
		socklen_t len = sizeof addr;
		if (bind(fd, (void *)&addr, len) != 0 || listen(fd, 16) != 0 || getsockname(fd, (void *)&addr, &len) != 0)
			fail("listen");
		printf("%d\n", ntohs(addr.sin_port));
		fflush(stdout);
		for (;;) {
			struct pollfd in[] = {{.fd = 0, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
			if (poll(in, 2, -1) < 0 || in[0].revents)
				return 0;
			int c = accept(fd, NULL, NULL);
			if (c < 0)
				continue;
			set_up(c);
			serve(c);
			close(c);
		}
	}
	if (connect(fd, (void *)&addr, sizeof addr) != 0)
		fail("connect");
	struct order o = {.mode = argv[3][0] == 's' && argv[3][1] == 'p' ? 'w' : argv[3][0], .size = strtoul(argv[4], NULL, 10)};
	if (o.size == 0 || o.size > max) {
		fprintf(stderr, "SIZE %u: from 1 to %d\n", o.size, max);
		return 2;
	}
	put(fd, &o, sizeof o);
	int64_t start = now(), end = start + (int64_t)(atof(argv[5]) * 1e9), told;
	if (o.mode == 's') {
		while (now() < end)
			put(fd, buf, o.size);
		shutdown(fd, SHUT_WR);
		if (!get(fd, &told, sizeof told, 0))
			fail("the server ends");
		printf("%.6f\n", (double)told / (now() - start));
		return 0;
	}
	int64_t *times = malloc(times_max * sizeof *times), used = cpu(), last = now();
	long n = 0;
	for (int done = 0; !done; n++) {
		done = last >= end || n == times_max - 1;
		buf[0] = (char)done;
		put(fd, buf, o.size);
		if (!get(fd, buf, o.size, o.mode == 'w'))
			fail("the server ends");
		int64_t t = now();
		times[n] = t - last;
		last = t;
	}
	used = cpu() - used;
	if (!get(fd, &told, sizeof told, 0))
		fail("the server ends");
	qsort(times, n, sizeof *times, compare);
	printf("%.0f %.0f %.0f %.0f\n", times[n / 2] / 2.0, times[(long)(n * 0.99)] / 2.0, times[(long)(n * 0.999)] / 2.0, (double)(used + told) / n / 2);
	return 0;
}
