/* Which accelerators a machine type has or takes, and what would be right where it does not. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "orchestrator/plan/catalogue.h"

#define CHOICES_MAX 16
#define TEXT_MAX    160

/* What may stand in one place, in the catalogue's order. */
struct choices {
	char texts[CHOICES_MAX][32];
	size_t count;
};

static void add_choice(struct choices *choices, const char *text)
{
	for (size_t i = 0; i < choices->count; i++) {
		if (strcmp(choices->texts[i], text) == 0) {
			return;
		}
	}
	if (choices->count < CHOICES_MAX) {
		snprintf(choices->texts[choices->count++], sizeof(choices->texts[0]), "%s", text);
	}
}

/* "1, 2 or 4" */
static void write_choices(const struct choices *choices, char text[TEXT_MAX])
{
	size_t length = 0;

	text[0] = '\0';
	for (size_t i = 0; i < choices->count && length < TEXT_MAX; i++) {
		const char *before = i == 0 ? "" : i + 1 < choices->count ? ", " : " or ";

		length += (size_t)snprintf(
			text + length, TEXT_MAX - length, "%s%s", before, choices->texts[i]);
	}
}

/* Which attachments of a type, and with how many vCPUs. */
static void find_attachments(const struct smd_catalogue *catalogue, const char *machine_type,
	const char *accelerator_type, int vcpu, struct choices *types, struct choices *counts)
{
	struct smd_attachment attachment;
	size_t i;
	json_t *row;

	json_array_foreach (catalogue->attached_accelerators, i, row) {
		char number[16];

		if (smd_attachment_read(row, &attachment) ||
			!smd_machine_is_of_family(machine_type, attachment.family)) {
			continue;
		}
		add_choice(types, attachment.accelerator_type);
		if (strcmp(attachment.accelerator_type, accelerator_type) == 0 &&
			vcpu <= attachment.vcpu_max) {
			snprintf(number, sizeof(number), "%d", attachment.count);
			add_choice(counts, number);
		}
	}
}

/* Which machine would be right: one with as many, else one with any, else the family that takes
 * them. */
static void write_right_machine(const struct smd_catalogue *catalogue,
	const char *accelerator_type, int count, char text[TEXT_MAX])
{
	struct smd_attachment attachment;
	struct smd_machine machine;
	int is_exact = 0;
	size_t i;
	json_t *row;

	text[0] = '\0';
	json_array_foreach (catalogue->attached_accelerators, i, row) {
		if (smd_attachment_read(row, &attachment) == 0 &&
			strcmp(attachment.accelerator_type, accelerator_type) == 0) {
			snprintf(text, TEXT_MAX, "; %s machines take %s", attachment.family,
				accelerator_type);
			return;
		}
	}
	json_array_foreach (catalogue->machine_types, i, row) {
		if (smd_machine_read(row, &machine) || machine.is_azure || !machine.accelerator_type ||
			strcmp(machine.accelerator_type, accelerator_type) != 0) {
			continue;
		}
		if (!text[0] || (!is_exact && machine.accelerators == count)) {
			is_exact = machine.accelerators == count;
			snprintf(text, TEXT_MAX, "; %s has %d %s", machine.name,
				machine.accelerators, accelerator_type);
		}
	}
}

/* One of the same sort with as many of the accelerators that it has: a2-highgpu-4g. */
static void write_sibling(const struct smd_catalogue *catalogue, const struct smd_machine *machine,
	int count, char text[TEXT_MAX])
{
	size_t family = strcspn(machine->name, "-");
	struct smd_machine other;
	size_t i;
	json_t *row;

	text[0] = '\0';
	json_array_foreach (catalogue->machine_types, i, row) {
		if (smd_machine_read(row, &other) == 0 && other.accelerator_type &&
			strncmp(other.name, machine->name, family + 1) == 0 &&
			strcmp(other.accelerator_type, machine->accelerator_type) == 0 &&
			other.accelerators == count) {
			snprintf(text, TEXT_MAX, "; %s has %d", other.name, count);
			return;
		}
	}
}

static enum smd_machine_part check_built_in(const struct smd_catalogue *catalogue,
	const struct smd_machine *machine, const char *accelerator_type, int count, char *text,
	size_t size)
{
	char hint[TEXT_MAX];

	if (strcmp(accelerator_type, machine->accelerator_type) != 0) {
		write_right_machine(catalogue, accelerator_type, count, hint);
		snprintf(text, size, "must be %s with %s, got %s%s", machine->accelerator_type,
			machine->name, accelerator_type, hint);
		return SMD_MACHINE_ACCELERATOR_TYPE;
	}
	if (count != machine->accelerators) {
		write_sibling(catalogue, machine, count, hint);
		snprintf(text, size, "must be %d with %s, got %d%s", machine->accelerators,
			machine->name, count, hint);
		return SMD_MACHINE_ACCELERATOR_COUNT;
	}
	return SMD_MACHINE_RIGHT;
}

static enum smd_machine_part check_attached(const struct smd_catalogue *catalogue,
	const struct smd_machine *machine, const char *accelerator_type, int count, char *text,
	size_t size)
{
	struct choices types = {.count = 0};
	struct choices counts = {.count = 0};
	char allowed[TEXT_MAX];
	char hint[TEXT_MAX];
	char number[16];

	find_attachments(
		catalogue, machine->name, accelerator_type, machine->vcpu, &types, &counts);
	snprintf(number, sizeof(number), "%d", count);
	for (size_t i = 0; i < counts.count; i++) {
		if (strcmp(counts.texts[i], number) == 0) {
			return SMD_MACHINE_RIGHT;
		}
	}
	if (counts.count > 0) {
		write_choices(&counts, allowed);
		snprintf(text, size, "must be %s of %s with the %d vCPUs of %s, got %d", allowed,
			accelerator_type, machine->vcpu, machine->name, count);
		return SMD_MACHINE_ACCELERATOR_COUNT;
	}
	write_right_machine(catalogue, accelerator_type, count, hint);
	if (types.count == 0) {
		snprintf(text, size, "must not be given with %s, which takes no accelerators, got "
				     "%s%s",
			machine->name, accelerator_type, hint);
	} else {
		write_choices(&types, allowed);
		snprintf(text, size, "must be %s with %s, got %s%s", allowed, machine->name,
			accelerator_type, hint);
	}
	return SMD_MACHINE_ACCELERATOR_TYPE;
}

enum smd_machine_part smd_catalogue_check_accelerators(const struct smd_catalogue *catalogue,
	const char *machine_type, const char *accelerator_type, int count, char *text, size_t size)
{
	struct smd_machine machine;

	if (smd_catalogue_find(catalogue, machine_type, NULL, 0, &machine)) {
		return SMD_MACHINE_RIGHT;
	}
	return machine.accelerators > 0 ? check_built_in(catalogue, &machine, accelerator_type,
						  count, text, size)
					: check_attached(catalogue, &machine, accelerator_type,
						  count, text, size);
}

int smd_catalogue_complete(const struct smd_catalogue *catalogue, struct smd_job *job)
{
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		struct smd_job_pool *pool = &job->pools[i];
		struct smd_machine machine;

		if (pool->replica_count == 0 || !pool->machine_type || pool->accelerator_type ||
			smd_catalogue_find(catalogue, pool->machine_type, NULL, 0, &machine) ||
			machine.accelerators == 0) {
			continue;
		}
		pool->accelerator_type = strdup(machine.accelerator_type);
		if (!pool->accelerator_type) {
			return -ENOMEM;
		}
		pool->accelerator_count = machine.accelerators;
		pool->accelerators_are_built_in = 1;
	}
	return 0;
}
