// congestion makes every TCP socket of a program use the congestion control that
// CONGESTION names, so that programs that cannot be told so can be compared:
//
//	cc -O2 -shared -fPIC -o congestion.so congestion.c
//	CONGESTION=cubic LD_PRELOAD=./congestion.so PROGRAM
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
	int fd = next(domain, type, protocol);
	const char *name = getenv("CONGESTION");
	if (fd >= 0 && name && (domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)); // accepted sockets inherit it
	return fd;
}
