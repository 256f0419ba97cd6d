// gone PORT send|receive: memory that is unmapped while it is registered and posted becomes
// an error of the work request, and no crash. Both ends are in this process.
#include <infiniband/verbs.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)
#define SIZE (1 << 20)

static char *port;
static int receive; // whose memory goes
static volatile int ready;
static struct ibv_qp_init_attr attr = { .cap = { 16, 16, 1, 1, 64 }, .sq_sig_all = 1 };

static char *map(void)
{
	char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	CHECK(p != MAP_FAILED);
	return p;
}

static struct rdma_cm_id *endpoint(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *res;
	struct rdma_cm_id *id;
	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &res));
	CHECK(!rdma_create_ep(&id, res, NULL, &attr));
	rdma_freeaddrinfo(res);
	return id;
}

static void *server(void *p)
{
	struct rdma_cm_id *listener = endpoint(RAI_PASSIVE), *id;
	struct ibv_wc wc;
	CHECK(!rdma_listen(listener, 4));
	ready = 1;
	CHECK(!rdma_get_request(listener, &id));
	struct ibv_mr *mr = rdma_reg_msgs(id, p, SIZE);
	CHECK(mr && !rdma_post_recv(id, NULL, p, SIZE, mr));
	if (receive)
		munmap(p, SIZE);
	CHECK(!rdma_accept(id, NULL));
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status != IBV_WC_SUCCESS);
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	return NULL;
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	port = argv[1];
	receive = !strcmp(argv[2], "receive");
	char *mine = map(), *servers = map();
	pthread_t t;
	struct ibv_wc wc;
	pthread_create(&t, NULL, server, servers);
	while (!ready)
		usleep(1000);
	struct rdma_cm_id *id = endpoint(0);
	CHECK(!rdma_connect(id, NULL));
	struct ibv_mr *mr = rdma_reg_msgs(id, mine, SIZE);
	CHECK(mr);
	if (!receive)
		munmap(mine, SIZE);
	CHECK(!rdma_post_send(id, NULL, mine, SIZE, mr, 0));
	CHECK(rdma_get_send_comp(id, &wc) == 1 && (receive || wc.status == IBV_WC_LOC_PROT_ERR));
	pthread_join(t, NULL);
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	puts("ok");
	return 0;
}
