/* Tells the kernel from which node memory is to come. */
#include "reduction_server/base/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

struct node_mask {
	unsigned long bits[SMD_NUMA_NODES_MAX / (8 * sizeof(unsigned long))];
};

static struct node_mask mask_of(int node)
{
	const unsigned width = 8 * sizeof(unsigned long);
	struct node_mask mask = {{0}};

	mask.bits[(unsigned)node / width] |= 1ul << (unsigned)node % width;
	return mask;
}

int smd_numa_bind(void *memory, size_t length, int node)
{
	struct node_mask mask;

	if (node < 0) {
		return 0;
	}
	mask = mask_of(node);
	return syscall(SYS_mbind, memory, length, MPOL_PREFERRED, mask.bits,
		       SMD_NUMA_NODES_MAX + 1ul, MPOL_MF_MOVE) == 0
		       ? 0
		       : -errno;
}

int smd_numa_prefer(int node)
{
	struct node_mask mask;

	if (node < 0) {
		return 0;
	}
	mask = mask_of(node);
	return syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.bits, SMD_NUMA_NODES_MAX + 1ul) == 0
		       ? 0
		       : -errno;
}
