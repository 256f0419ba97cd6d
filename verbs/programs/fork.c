// Forks after a device is open, and duplicates its descriptor. The child's commands fail,
// and the parent goes on.
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); _exit(1); } } while (0)

static void child(struct ibv_device *dev, struct ibv_context *c)
{
	CHECK(!ibv_alloc_pd(c) && errno == EIO);
	CHECK(!ibv_open_device(dev));
	ibv_close_device(c);
	_exit(0);
}

int main(void)
{
	int n, status;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list && n == 1);
	struct ibv_context *c = ibv_open_device(list[0]);
	CHECK(c);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	CHECK(pd);
	ibv_fork_init();
	pid_t p = fork();
	if (!p)
		child(list[0], c);
	CHECK(waitpid(p, &status, 0) == p && status == 0);
	int other = dup(c->cmd_fd);
	CHECK(other >= 0 && !close(other));
	CHECK(!ibv_dealloc_pd(pd) && (pd = ibv_alloc_pd(c)));
	other = dup(c->cmd_fd);
	CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(c) && !close(other));
	c = ibv_open_device(list[0]);
	CHECK(c && ibv_alloc_pd(c));
	puts("ok");
	return 0;
}
