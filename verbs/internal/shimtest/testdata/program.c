// A program that does to descriptors what programs do.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, strerror(errno)); return 1; } } while (0)

struct command {
	uint32_t cmd;
	uint16_t in, out;
	uint64_t response;
	uint32_t qp, pad;
};

static ssize_t command(int fd, uint32_t cmd, uint32_t qp, void *response)
{
	struct command c = { cmd, 6, 1, (uintptr_t)response, qp, 0 };
	return write(fd, &c, sizeof c);
}

static void *many(void *arg)
{
	for (int i = 0; i < 200; i++) {
		int fd = open("/dev/infiniband/uverbs0", O_RDWR);
		if (fd < 0 || command(fd, 3, 0, NULL) < 0)
			return arg;
		int other = dup(fd);
		close(fd);
		if (command(other, 3, 0, NULL) < 0)
			return arg;
		close(other);
	}
	return NULL;
}

int main(void)
{
	struct stat st;
	int32_t fd2;
	CHECK(!stat("/dev/infiniband/uverbs0", &st) && S_ISCHR(st.st_mode));
	CHECK(!stat("/", &st) && S_ISDIR(st.st_mode));
	int fd = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(!fstat(fd, &st) && S_ISCHR(st.st_mode));
	CHECK(command(fd, 3, 0, NULL) == sizeof(struct command));
	CHECK(command(fd, 99, 0, NULL) < 0 && errno == EOPNOTSUPP);
	CHECK(command(fd, 28, 5, NULL) == sizeof(struct command));
	CHECK(command(fd, 28, 7, NULL) < 0 && errno == EINVAL);
	CHECK(write(fd, "x", 1) < 0 && errno == EINVAL);
	CHECK(command(fd, 17, 0, &fd2) > 0 && fd2 > 0);
	CHECK(!close(fd2));
	int a = dup(fd), b = dup2(fd, 50), c = fcntl(fd, F_DUPFD_CLOEXEC, 60);
	CHECK(a > 0 && b == 50 && c >= 60);
	CHECK(!close(fd) && !close(a) && !close(b));
	CHECK(command(c, 3, 0, NULL) > 0);
	CHECK(dup2(1, c) == c); // closes it
	CHECK(!close(c));
	int cm = open("/dev/infiniband/rdma_cm", O_RDWR);
	CHECK(cm >= 0);
	CHECK(command(cm, 12, 0, NULL) > 0);
	fd = open("/dev/infiniband/uverbs0", O_RDWR);
	pid_t p = fork();
	if (!p) {
		CHECK(command(fd, 3, 0, NULL) < 0 && errno == EIO);
		CHECK(open("/dev/infiniband/uverbs0", O_RDWR) < 0);
		CHECK(!close(fd));
		fflush(stdout);
		_exit(0);
	}
	int status;
	CHECK(waitpid(p, &status, 0) == p && status == 0);
	CHECK(command(fd, 3, 0, NULL) > 0);
	int null = open("/dev/null", O_WRONLY);
	CHECK(write(null, "abc", 3) == 3 && !close(null));
	int file = open("/dev/infiniband/none", O_RDONLY);
	CHECK(file < 0 && errno == ENOENT);
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many, "failed");
	for (int i = 0; i < 4; i++) {
		void *r;
		pthread_join(t[i], &r);
		CHECK(!r);
	}
	CHECK(!close_range(cm, cm, 0));
	CHECK(command(cm, 3, 0, NULL) < 0 && errno == EBADF);
	CHECK(!close(fd));
	puts("ok");
	return 0;
}
