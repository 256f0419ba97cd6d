// fi_write measures RDMA Writes over libfabric's tcp provider, to compare with.
//
//	cc -O2 -o fi_write fi_write.c -lfabric
//	fi_write                         the target: prints what the source needs, ends with its standard input
//	fi_write SIZE SECONDS TARGET...  the source: prints GB/s (1e9 octets)
//
// A window of 16 writes is under way; the last one asks to be told of its delivery.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { max = 16 << 20, window = 16 };

static void check(long rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, fi_strerror(-rc));
		exit(1);
	}
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static struct fid_ep *ep;
static struct fid_cq *cq;

static int progress(int block)
{
	struct fi_cq_entry e[window];
	ssize_t n;
	do {
		n = fi_cq_read(cq, e, window);
	} while (block && n == -FI_EAGAIN);
	if (n == -FI_EAVAIL) {
		struct fi_cq_err_entry err = {0};
		fi_cq_readerr(cq, &err, 0);
		check(-err.err, "completion");
	}
	if (n != -FI_EAGAIN)
		check(n, "fi_cq_read");
	return n > 0 ? (int)n : 0;
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_RMA | FI_MSG;
	hints->mode = 0;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
	check(fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", NULL, argc == 1 ? FI_SOURCE : 0, hints, &info), "fi_getinfo");

	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_mr *mr;
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	struct fi_cq_attr cqa = {.format = FI_CQ_FORMAT_CONTEXT, .size = 1024};
	struct fi_av_attr ava = {.type = FI_AV_MAP};
	check(fi_cq_open(domain, &cqa, &cq, NULL), "fi_cq_open");
	check(fi_av_open(domain, &ava, &av, NULL), "fi_av_open");
	check(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	check(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "bind cq");
	check(fi_ep_bind(ep, &av->fid, 0), "bind av");
	check(fi_enable(ep), "fi_enable");
	char *buf = aligned_alloc(2 << 20, max);
	madvise(buf, max, MADV_HUGEPAGE); // "iwarp bench" does so too
	memset(buf, 1, max);
	check(fi_mr_reg(domain, buf, max, FI_REMOTE_WRITE | FI_WRITE, 0, 1, 0, &mr, NULL), "fi_mr_reg");

	if (argc == 1) {
		unsigned char name[256];
		size_t len = sizeof name;
		check(fi_getname(&ep->fid, name, &len), "fi_getname");
		printf("%llx %llx ", (unsigned long long)fi_mr_key(mr),
		       info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (unsigned long long)(size_t)buf : 0ull);
		for (size_t i = 0; i < len; i++)
			printf("%02x", name[i]);
		printf("\n");
		fflush(stdout);
		struct pollfd in = {.fd = 0, .events = POLLIN};
		for (long i = 0;; i++) {
			progress(0);
			if (i % 4096 == 0 && poll(&in, 1, 0) > 0)
				return 0;
		}
	}
	if (argc != 6) {
		fprintf(stderr, "usage: fi_write [SIZE SECONDS KEY ADDRESS NAME]\n");
		return 2;
	}
	size_t size = strtoul(argv[1], NULL, 10);
	double seconds = atof(argv[2]);
	unsigned long long key = strtoull(argv[3], NULL, 16), addr = strtoull(argv[4], NULL, 16);
	unsigned char name[256] = {0};
	for (size_t i = 0; i < strlen(argv[5]) / 2; i++)
		sscanf(argv[5] + 2 * i, "%2hhx", &name[i]);
	fi_addr_t target;
	if (fi_av_insert(av, name, 1, &target, 0, NULL) != 1)
		check(-FI_EINVAL, "fi_av_insert");

	double start = 0;
	long done = 0, posted = 0, warm = -1;
	int last = 0;
	for (;;) {
		while (!last && posted - done < window) {
			if (start > 0 && now() - start > seconds)
				last = 1;
			struct iovec iov = {buf, size};
			void *desc = fi_mr_desc(mr);
			struct fi_rma_iov rma = {addr, size, key};
			struct fi_msg_rma msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = target, .rma_iov = &rma, .rma_iov_count = 1};
			ssize_t rc = fi_writemsg(ep, &msg, FI_COMPLETION | (last ? FI_DELIVERY_COMPLETE : 0));
			if (rc == -FI_EAGAIN) {
				last = 0;
				break;
			}
			check(rc, "fi_writemsg");
			posted++;
		}
		done += progress(last);
		if (start == 0 && done > 64) {
			start = now();
			warm = done;
		}
		if (last && done == posted)
			break;
	}
	printf("%.6f\n", (double)(done - warm) * size / (now() - start) / 1e9);
	return 0;
}
