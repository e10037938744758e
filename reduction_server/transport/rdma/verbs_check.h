/*
 * What may be asked of verbs in builds without them too, which then answer -ENODEV.
 */
#ifndef SMD_TRANSPORT_RDMA_VERBS_CHECK_H
#define SMD_TRANSPORT_RDMA_VERBS_CHECK_H

#include <stdbool.h>

/* Whether that device ("mlx5_0") takes memory that a dma-buf stands for: 0 or -errno. */
int smd_verbs_check_dmabuf(const char *device);

/* Whether SUMMAND_RDMA_WINDOWS asks for memory windows. */
bool smd_rdma_wants_windows(void);

#endif
