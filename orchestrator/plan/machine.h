/*
 * The machine catalogue: what each machine type can send, from machine_types.json.
 */
#ifndef SMD_PLAN_MACHINE_H
#define SMD_PLAN_MACHINE_H

#include <stddef.h>

#include "reduction_server/base/error.h"

struct smd_catalogue;

struct smd_machine {
	const char *name; /* the catalogue's */
	int vcpu;
	double memory_gb;
	double egress_gbps;
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

/* The machine type that is recommended for reduction servers. */
const char *smd_catalogue_reduction_server(const struct smd_catalogue *catalogue);

/*
 * Whether the machine type may have `count` accelerators of that type. 0 when it may, or nothing
 * is known; else -EINVAL, and the counts that it may have as text: "1, 2, 4 or 8".
 */
int smd_catalogue_check_accelerators(const struct smd_catalogue *catalogue,
	const char *machine_type, const char *accelerator_type, int count, char *text, size_t size);

#endif
