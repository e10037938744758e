/*
 * The machine catalogue from the inside: the file's lists, and how a row of them is read.
 */
#ifndef SMD_PLAN_CATALOGUE_H
#define SMD_PLAN_CATALOGUE_H

#include <jansson.h>

#include "orchestrator/plan/machine.h"

struct smd_catalogue {
	json_t *file;
	json_t *machine_types; /* borrowed from file, as are the others */
	json_t *attached_accelerators;
	json_t *reduction_servers;
	double attached_gbps_per_vcpu;
};

/* What a family takes: so many accelerators of a type on a machine of at most vcpu_max vCPUs, which
 * then sends egress_gbps_max at most. */
struct smd_attachment {
	const char *family;
	const char *accelerator_type;
	int count;
	int vcpu_max;
	double egress_gbps_max;
};

/* 0, or -EINVAL for a row that is none. */
int smd_machine_read(json_t *row, struct smd_machine *out);
int smd_attachment_read(json_t *row, struct smd_attachment *out);

/* "n1" of "n1-highmem-96". */
int smd_machine_is_of_family(const char *machine_type, const char *family);

#endif
