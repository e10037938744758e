/*
 * The machine catalogue: what each machine type can send, from machine_types.json.
 */
#ifndef SMD_PLAN_MACHINE_H
#define SMD_PLAN_MACHINE_H

#include "reduction_server/base/error.h"

struct smd_catalogue;

struct smd_machine {
	int vcpu;
	double memory_gb;
	double egress_gbps;
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

#endif
