/* The algorithms of NCCL's kernels, as far as one GPU per node can have them: all-reduce by ring,
 * tree and CollNet's chain, the other collectives by ring, send and receive. */
#ifndef SMD_NCCL_SIM_ALGORITHM_H
#define SMD_NCCL_SIM_ALGORITHM_H

#include "primitives.h"

/* The part of a collective that is the block's. */
void smd_algorithm_collective(const smd_block &block, smd_function function, ncclDevWorkColl *work);

/* One of both directions of send and receive. */
void smd_algorithm_transfer(const smd_block &block, ncclDevWorkP2p *work, bool send);

#endif
