/* Verbs that take the simulated GPU's memory as a dma-buf, which Soft-RoCE does not: that memory is the host's, at the same
 * address. It is opened in librdmacm's place, and has the rest of it behind it. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>

#undef ibv_reg_mr /* in the header a macro that ends in the function */

struct ibv_mr *ibv_reg_dmabuf_mr(
	struct ibv_pd *domain, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)offset;
	if (fd < 0) {
		errno = EBADF;
		return NULL;
	}
	return ibv_reg_mr(domain, (void *)(uintptr_t)iova, length, access); /* NOLINT(performance-no-int-to-ptr) */
}
