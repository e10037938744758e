/* Looks machine types up in the catalogue. */
#include "orchestrator/plan/catalogue.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "reduction_server/base/options.h"

#define PLACE_BESIDE_PROGRAM "../share/summand/machine_types.json"
#define AZURE                "Standard_"
#define VCPU_ANY             INT_MAX

static int find_beside_program(char path[PATH_MAX], struct smd_error *error)
{
	char program[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	if (length < 0) {
		return smd_error_set(error, errno, "/proc/self/exe: %s", strerror(errno));
	}
	program[length] = '\0';
	slash = strrchr(program, '/');
	if (!slash || snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - program), program,
			      PLACE_BESIDE_PROGRAM) >= PATH_MAX) {
		return smd_error_set(
			error, ENAMETOOLONG, "%s: %s", program, strerror(ENAMETOOLONG));
	}
	return 0;
}

int smd_catalogue_load(const char *path, struct smd_catalogue **out, struct smd_error *error)
{
	struct smd_catalogue *catalogue;
	char beside[PATH_MAX];
	json_error_t reason;
	int ret;

	if (!path) {
		ret = find_beside_program(beside, error);
		if (ret) {
			return ret;
		}
		path = beside;
	}
	catalogue = calloc(1, sizeof(*catalogue));
	if (!catalogue) {
		return smd_error_set(error, ENOMEM, "%s: %s", path, strerror(ENOMEM));
	}
	catalogue->file = json_load_file(path, JSON_REJECT_DUPLICATES, &reason);
	if (!catalogue->file ||
		json_unpack_ex(catalogue->file, &reason, 0, "{s:o, s:o, s:F, s:o}", "machine_types",
			&catalogue->machine_types, "attached_accelerators",
			&catalogue->attached_accelerators, "attached_gbps_per_vcpu",
			&catalogue->attached_gbps_per_vcpu, "reduction_servers",
			&catalogue->reduction_servers)) {
		ret = smd_error_set(
			error, EINVAL, "%s: must be a machine catalogue: %s", path, reason.text);
		smd_catalogue_free(catalogue);
		return ret;
	}
	*out = catalogue;
	return 0;
}

void smd_catalogue_free(struct smd_catalogue *catalogue)
{
	if (catalogue) {
		json_decref(catalogue->file);
		free(catalogue);
	}
}

int smd_machine_is_of_family(const char *machine_type, const char *family)
{
	size_t length = strlen(family);

	return strncmp(machine_type, family, length) == 0 && machine_type[length] == '-';
}

static int is_azure(const char *machine_type)
{
	return strncasecmp(machine_type, AZURE, sizeof(AZURE) - 1) == 0;
}

int smd_attachment_read(json_t *row, struct smd_attachment *out)
{
	struct smd_attachment attachment = {.vcpu_max = VCPU_ANY};

	if (json_unpack(row, "{s:s, s:s, s:i, s?i, s:F}", "family", &attachment.family,
		    "accelerator_type", &attachment.accelerator_type, "count", &attachment.count,
		    "vcpu_max", &attachment.vcpu_max, "egress_gbps_max",
		    &attachment.egress_gbps_max)) {
		return -EINVAL;
	}
	*out = attachment;
	return 0;
}

/* An attached accelerator gives the machine a limit of its own, by vCPU up to a maximum. */
static void attach(const struct smd_catalogue *catalogue, const char *accelerator_type, int count,
	struct smd_machine *machine)
{
	double limit = catalogue->attached_gbps_per_vcpu * machine->vcpu;
	struct smd_attachment attachment;
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->attached_accelerators, i, row) {
		if (smd_attachment_read(row, &attachment) == 0 && attachment.count == count &&
			smd_machine_is_of_family(machine->name, attachment.family) &&
			strcmp(attachment.accelerator_type, accelerator_type) == 0) {
			machine->egress_gbps = limit < attachment.egress_gbps_max
						       ? limit
						       : attachment.egress_gbps_max;
			return;
		}
	}
}

int smd_machine_read(json_t *row, struct smd_machine *out)
{
	struct smd_machine machine = {0};

	if (json_unpack(row, "{s:s, s:i, s:F, s?F, s?F, s?s, s?i}", "name", &machine.name, "vcpu",
		    &machine.vcpu, "memory_gb", &machine.memory_gb, "egress_gbps",
		    &machine.egress_gbps, "rdma_gbps", &machine.rdma_gbps, "accelerator_type",
		    &machine.accelerator_type, "accelerators", &machine.accelerators)) {
		return -EINVAL;
	}
	if (machine.accelerators < 0 || (machine.accelerators > 0 && !machine.accelerator_type)) {
		return -EINVAL;
	}
	machine.is_azure = is_azure(machine.name);
	*out = machine;
	return 0;
}

const char *smd_catalogue_reduction_server(
	const struct smd_catalogue *catalogue, const char *worker_type, int rdma, size_t rank)
{
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->reduction_servers, i, row) {
		const char *prefix;
		const char *machine_type;
		int has_rdma = 0;

		if (json_unpack(row, "{s:s, s?b, s:s}", "prefix", &prefix, "rdma", &has_rdma,
			    "machine_type", &machine_type) == 0 &&
			is_azure(prefix) == is_azure(worker_type) && has_rdma == (rdma != 0) &&
			rank-- == 0) {
			return machine_type;
		}
	}
	return NULL;
}

/* Azure's names are the same in capitals. */
static int is_called(const struct smd_machine *machine, const char *machine_type)
{
	return (machine->is_azure ? strcasecmp(machine->name, machine_type)
				  : strcmp(machine->name, machine_type)) == 0;
}

int smd_catalogue_find(const struct smd_catalogue *catalogue, const char *machine_type,
	const char *accelerator_type, int count, struct smd_machine *out)
{
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->machine_types, i, row) {
		struct smd_machine machine;

		if (smd_machine_read(row, &machine) == 0 && is_called(&machine, machine_type)) {
			if (accelerator_type && count > 0) {
				attach(catalogue, accelerator_type, count, &machine);
			}
			*out = machine;
			return 0;
		}
	}
	return -ENOENT;
}

const char *smd_catalogue_suggest(const struct smd_catalogue *catalogue, const char *machine_type)
{
	size_t count = json_array_size(catalogue->machine_types);
	const char **names = calloc(count + 1, sizeof(*names));
	size_t family = is_azure(machine_type) ? strcspn(machine_type, "0123456789")
					       : strcspn(machine_type, "-") + 1;
	const char *near = NULL;
	size_t n = 0;
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->machine_types, i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		/* "n1-standard-5" is meant to be an n1, and "Standard_NC7" an NC. */
		if (names && name && strncasecmp(name, machine_type, family) == 0) {
			names[n++] = name;
		}
	}
	if (n > 0) {
		near = smd_suggest(machine_type, names, n);
	}
	free(names);
	return near;
}
