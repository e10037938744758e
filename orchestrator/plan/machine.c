/* Looks machine types up in the catalogue. */
#include "orchestrator/plan/machine.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/options.h"

#define PLACE_BESIDE_PROGRAM "../share/summand/machine_types.json"
#define ATTACHABLE_MAX       16

struct smd_catalogue {
	json_t *file;
	json_t *machine_types; /* borrowed from file, as are the others */
	json_t *attached_accelerators;
	double attached_gbps_per_vcpu;
	const char *reduction_server;
};

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
		json_unpack_ex(catalogue->file, &reason, 0, "{s:o, s:o, s:F, s:s}", "machine_types",
			&catalogue->machine_types, "attached_accelerators",
			&catalogue->attached_accelerators, "attached_gbps_per_vcpu",
			&catalogue->attached_gbps_per_vcpu, "reduction_server",
			&catalogue->reduction_server)) {
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

/* "n1" of "n1-highmem-96". */
static int is_of_family(const char *machine_type, const char *family)
{
	size_t length = strlen(family);

	return strncmp(machine_type, family, length) == 0 && machine_type[length] == '-';
}

/* An attached accelerator gives the machine a limit of its own, by vCPU up to a maximum. */
static void attach(const struct smd_catalogue *catalogue, const char *machine_type,
	const char *accelerator_type, int count, struct smd_machine *machine)
{
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->attached_accelerators, i, row) {
		double limit = catalogue->attached_gbps_per_vcpu * machine->vcpu;
		const char *family;
		const char *type;
		double most;
		int n;

		if (json_unpack(row, "{s:s, s:s, s:i, s:F}", "family", &family, "accelerator_type",
			    &type, "count", &n, "egress_gbps_max", &most) == 0 &&
			n == count && is_of_family(machine_type, family) &&
			strcmp(type, accelerator_type) == 0) {
			machine->egress_gbps = limit < most ? limit : most;
			return;
		}
	}
}

static int read_row(json_t *row, struct smd_machine *out)
{
	struct smd_machine machine = {0};

	if (json_unpack(row, "{s:s, s:i, s:F, s:F, s?s, s?i}", "name", &machine.name, "vcpu",
		    &machine.vcpu, "memory_gb", &machine.memory_gb, "egress_gbps",
		    &machine.egress_gbps, "accelerator_type", &machine.accelerator_type,
		    "accelerators", &machine.accelerators)) {
		return -EINVAL;
	}
	*out = machine;
	return 0;
}

const char *smd_catalogue_reduction_server(const struct smd_catalogue *catalogue)
{
	return catalogue->reduction_server;
}

int smd_catalogue_find(const struct smd_catalogue *catalogue, const char *machine_type,
	const char *accelerator_type, int count, struct smd_machine *out)
{
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->machine_types, i, row) {
		struct smd_machine machine;

		if (read_row(row, &machine) == 0 && strcmp(machine.name, machine_type) == 0) {
			if (accelerator_type && count > 0) {
				attach(catalogue, machine_type, accelerator_type, count, &machine);
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
	size_t family = strcspn(machine_type, "-");
	const char *near = NULL;
	size_t n = 0;
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->machine_types, i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		/* "n1-standard-5" is meant to be an n1. */
		if (names && name && strncmp(name, machine_type, family + 1) == 0) {
			names[n++] = name;
		}
	}
	if (n > 0) {
		near = smd_suggest(machine_type, names, n);
	}
	free(names);
	return near;
}

/* The counts that the family takes of an accelerator, as a list; returns how many there are. */
static size_t attachable(const struct smd_catalogue *catalogue, const char *machine_type,
	const char *accelerator_type, int counts[ATTACHABLE_MAX])
{
	size_t found = 0;
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->attached_accelerators, i, row) {
		const char *family;
		const char *type;
		int count;

		if (found < ATTACHABLE_MAX &&
			json_unpack(row, "{s:s, s:s, s:i}", "family", &family, "accelerator_type",
				&type, "count", &count) == 0 &&
			is_of_family(machine_type, family) && strcmp(type, accelerator_type) == 0) {
			counts[found++] = count;
		}
	}
	return found;
}

static void write_counts(const int *counts, size_t ncounts, char *text, size_t size)
{
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < ncounts && length < size; i++) {
		const char *before = i == 0 ? "" : i + 1 < ncounts ? ", " : " or ";

		length += (size_t)snprintf(text + length, size - length, "%s%d", before, counts[i]);
	}
}

int smd_catalogue_check_accelerators(const struct smd_catalogue *catalogue,
	const char *machine_type, const char *accelerator_type, int count, char *text, size_t size)
{
	int counts[ATTACHABLE_MAX];
	struct smd_machine machine;
	size_t ncounts;

	if (smd_catalogue_find(catalogue, machine_type, NULL, 0, &machine)) {
		return 0;
	}
	if (machine.accelerators > 0) {
		counts[0] = machine.accelerators;
		ncounts = 1;
	} else {
		ncounts = attachable(catalogue, machine_type, accelerator_type, counts);
	}
	for (size_t i = 0; i < ncounts; i++) {
		if (counts[i] == count) {
			return 0;
		}
	}
	write_counts(counts, ncounts, text, size);
	return ncounts ? -EINVAL : 0;
}
