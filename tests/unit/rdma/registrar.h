/*
 * Registers memory as a network card would, without one: remembers what is registered and what the
 * memory held then, has a limit as memlock is one, and refuses to write to read-only memory.
 */
#ifndef SMD_TESTS_RDMA_REGISTRAR_H
#define SMD_TESTS_RDMA_REGISTRAR_H

#include "reduction_server/transport/rdma/registration.h"

#define REGISTRATIONS_MAX 65536

struct registration {
	uintptr_t begin;
	uintptr_t end;
	enum smd_rdma_access access;
	bool live;
	bool device; /* then: */
	int fd;
	uint64_t offset;
	uint64_t stamp; /* the first 8 bytes when it was registered, where `stamped` is set */
};

struct registrar {
	uint64_t bounce_max; /* of caches that are made */
	bool stamped;
	int err;        /* 0, or what every registration fails with */
	uint64_t limit; /* -ENOMEM beyond it */
	uintptr_t read_only_begin;
	uintptr_t read_only_end;
	unsigned asked; /* registrations, refused ones too */
	unsigned count;
	unsigned live;
	uint64_t pinned;
	struct registration all[REGISTRATIONS_MAX];
};

extern struct registrar registrar;

void registrar_reset(void);
/* A cache that registers with it; 0: the defaults. */
struct smd_rdma_memory *registrar_cache(unsigned entries_max, uint64_t bytes_max);
/* Behind a region. */
const struct registration *registrar_of(const struct smd_rdma_region *region);

#endif
