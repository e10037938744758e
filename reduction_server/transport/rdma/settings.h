/*
 * What a user may set of RDMA, by variables of the environment (specs/guide/rdma.md): how long a
 * write is tried, in what order a card may put bytes into memory, and how much stays registered.
 */
#ifndef SMD_TRANSPORT_RDMA_SETTINGS_H
#define SMD_TRANSPORT_RDMA_SETTINGS_H

#include <stdbool.h>

#include "reduction_server/base/error.h"
#include "reduction_server/transport/rdma/verbs.h"

struct smd_rdma_settings {
	struct smd_verbs_patience patience;
	unsigned connect_s; /* patience with all of connecting */
	bool relaxed;       /* payloads are written to memory in any order */
	bool windows;       /* what is advertised is opened by a memory window for one payload */
	bool by_manager;    /* lanes are made by the connection manager, and not over TCP lanes, */
	char devices[256];  /* on these, as in NCCL_IB_HCA; empty: any */
	uint8_t service_level;
	uint8_t traffic_class;
	uint8_t pkey;   /* the partition's index in the port's table */
	uint64_t cache; /* bytes of callers' buffers that stay registered while nothing uses them */
	uint64_t bounce; /* bytes of slots that others are copied through */
};

/* 0, or -EINVAL with a text. */
int smd_rdma_settings_read(struct smd_rdma_settings *out, struct smd_error *error);

#endif
