/*
 * The machine catalogue: what each machine type can send, from machine_types.json.
 */
#ifndef SMD_PLAN_MACHINE_H
#define SMD_PLAN_MACHINE_H

#include <stddef.h>

#include "orchestrator/job/job.h"
#include "reduction_server/base/error.h"

struct smd_catalogue;

struct smd_machine {
	const char *name; /* the catalogue's */
	int is_azure;
	int vcpu;
	double memory_gb;
	double egress_gbps;           /* 0: unknown */
	double rdma_gbps;             /* of its InfiniBand; 0: it has none */
	const char *accelerator_type; /* built in; NULL: none */
	int accelerators;
};

/* Reads the catalogue at path; NULL: ../share/summand/machine_types.json beside the program. */
int smd_catalogue_load(const char *path, struct smd_catalogue **out, struct smd_error *error);
void smd_catalogue_free(struct smd_catalogue *catalogue);

/*
 * The machine with `count` accelerators of that type attached (NULL: none): they lift the limit of
 * an N1 machine. -ENOENT when the catalogue does not have the machine type.
 */
int smd_catalogue_find(const struct smd_catalogue *catalogue, const char *machine_type,
	const char *accelerator_type, int count, struct smd_machine *out);

/* The machine type of the catalogue that may be meant; NULL: none is near. */
const char *smd_catalogue_suggest(const struct smd_catalogue *catalogue, const char *machine_type);

/* The machine type that is recommended for reduction servers of workers of that type: the one of
 * rank 0, 1 and so on, of those with InfiniBand if `rdma`. NULL: there is no further one. */
const char *smd_catalogue_reduction_server(
	const struct smd_catalogue *catalogue, const char *worker_type, int rdma, size_t rank);

/* The part of a machine's description that is wrong. */
enum smd_machine_part {
	SMD_MACHINE_RIGHT,
	SMD_MACHINE_ACCELERATOR_TYPE,
	SMD_MACHINE_ACCELERATOR_COUNT
};

/* Whether the machine type may have `count` accelerators of that type: SMD_MACHINE_RIGHT when it
 * may, or nothing is known; else what must hold instead, what was got and what would be right. */
enum smd_machine_part smd_catalogue_check_accelerators(const struct smd_catalogue *catalogue,
	const char *machine_type, const char *accelerator_type, int count, char *text, size_t size);

/* Gives pools that name none the accelerators that are built into their machines. 0 or -ENOMEM. */
int smd_catalogue_complete(const struct smd_catalogue *catalogue, struct smd_job *job);

#endif
