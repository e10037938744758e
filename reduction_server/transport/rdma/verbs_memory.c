/* Calls libibverbs for registered memory and memory windows. */
#include <errno.h>

#include "reduction_server/transport/rdma/verbs.h"

int smd_verbs_region_create(
	struct ibv_pd *domain, void *memory, size_t length, int access, struct ibv_mr **out)
{
	*out = ibv_reg_mr(domain, memory, length, access);
	return *out ? 0 : -errno;
}

int smd_verbs_region_create_dmabuf(struct ibv_pd *domain, int fd, uint64_t offset, uint64_t address,
	size_t length, int access, struct ibv_mr **out)
{
	*out = ibv_reg_dmabuf_mr(domain, offset, length, address, fd, access);
	return *out ? 0 : -errno;
}

/* One that cannot be taken back stays locked, and its key good for those who have it: as it was. */
void smd_verbs_region_destroy(struct ibv_mr *region)
{
	(void)ibv_dereg_mr(region);
}

int smd_verbs_window_create(struct ibv_pd *domain, struct ibv_mw **out)
{
	errno = EOPNOTSUPP; /* what a provider without them does not say */
	*out = ibv_alloc_mw(domain, IBV_MW_TYPE_2);
	return *out ? 0 : -errno;
}

void smd_verbs_window_destroy(struct ibv_mw *window)
{
	(void)ibv_dealloc_mw(window);
}
