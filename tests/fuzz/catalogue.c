/*
 * Any bytes at all as the machine catalogue: refused with a reason, or asked for machines, which it
 * has or not.
 */
#include <errno.h>
#include <string.h>

#include "orchestrator/plan/machine.h"
#include "tests/fuzz/input.h"

static void ask(const struct smd_catalogue *catalogue, const char *type, const char *accelerator)
{
	struct smd_machine machine;
	char counts[16]; /* fewer than some lists need */

	if (smd_catalogue_find(catalogue, type, accelerator, 1, &machine) == 0) {
		must_hold(machine.name && strcmp(machine.name, type) == 0);
	}
	smd_catalogue_suggest(catalogue, type);
	if (smd_catalogue_check_accelerators(
		    catalogue, type, accelerator, 3, counts, sizeof(counts))) {
		must_hold(counts[0] && memchr(counts, '\0', sizeof(counts)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct smd_catalogue *catalogue;
	struct smd_error error = {""};
	int ret = smd_catalogue_load(input_file(bytes, length), &catalogue, &error);

	check_outcome(ret, &error);
	if (ret == 0) {
		const char *server = "n1-standard-4";

		for (size_t rank = 0; server; rank++) {
			ask(catalogue, server, "NVIDIA_TESLA_V100");
			server = smd_catalogue_reduction_server(catalogue, "n1", 0, rank);
		}
		ask(catalogue, "n1-standard-5", "");
		ask(catalogue, "a2-highgpu-8g", "NVIDIA_TESLA_T4");
		smd_catalogue_free(catalogue);
	}
	return 0;
}
