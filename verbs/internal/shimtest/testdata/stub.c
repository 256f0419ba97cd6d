// A core for tests of the shim: it says what it was asked, and answers as the test wants.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t last;
static int events = -1;

int iwarpOpen(int kind, uint32_t *number)
{
	*number = ++last;
	int fd = kind == 1 ? memfd_create("stub", 0) : (events = eventfd(0, EFD_SEMAPHORE));
	fprintf(stderr, "open %d is %u\n", kind, last);
	return fd;
}

long iwarpWrite(uint32_t number, const void *buf, size_t n)
{
	uint32_t cmd;
	memcpy(&cmd, buf, 4);
	fprintf(stderr, "write %u: command %u, %zu octets\n", number, cmd, n);
	if (cmd == 17) { // CREATE_COMP_CHANNEL
		int p[2];
		uint64_t at;
		memcpy(&at, (const char *)buf + 8, 8);
		if (pipe(p))
			return -EMFILE;
		close(p[1]);
		*(int32_t *)(uintptr_t)at = p[0];
	}
	if (cmd == 12) { // GET_EVENT
		uint64_t one;
		if (eventfd_write(events, 0) || read(events, &one, 0) < 0) { }
		static int waits = 2;
		if (waits-- > 0) {
			eventfd_write(events, 1);
			return -EAGAIN;
		}
	}
	return cmd == 99 ? -EOPNOTSUPP : 0;
}

void iwarpClose(uint32_t number) { fprintf(stderr, "close %u\n", number); }
void iwarpCloseDescriptor(uint32_t number, int fd) { (void)fd; fprintf(stderr, "close descriptor of %u\n", number); }
int iwarpDoorbell(uint32_t number, uint32_t qp) { fprintf(stderr, "doorbell %u of %u\n", qp, number); return qp == 7 ? -EINVAL : 0; }
int iwarpPoll(uint32_t number, uint32_t cq) { (void)number; (void)cq; return 0; }
void iwarpBell(void *b) { (void)b; }
