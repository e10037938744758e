/*
 * A connection over which nodes agree, which carries ballots and nothing else: at node 0 one from
 * each other node, and from strangers; on the others the only one.
 */
#ifndef SMD_NCCL_PLUGIN_COLLNET_CALLER_H
#define SMD_NCCL_PLUGIN_COLLNET_CALLER_H

#include <stdint.h>

#include "worker/nccl_plugin/collnet/ballot.h"

struct smd_caller {
	int fd; /* -1: none */
	uint64_t since_ns;
	unsigned got;
	uint8_t bytes[SMD_BALLOT_BYTES];
};

/* Without a connection nothing happens. */
void smd_caller_close(struct smd_caller *caller);

/* 1: a ballot is whole, in its bytes. 0: not yet. -errno: nothing more comes. */
int smd_caller_read(struct smd_caller *caller);

/* 0, or -errno. */
int smd_caller_write(const struct smd_caller *caller, const struct smd_ballot *ballot);

#endif
