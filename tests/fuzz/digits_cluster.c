/*
 * Any text at all as CLUSTER_SPEC for the digits example: refused with a reason, or a place among
 * the ranks.
 */
#include <stdlib.h>

#include "tests/fuzz/input.h"
#include "worker/examples/digits/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = input_text(bytes, length);
	struct digits_cluster cluster;
	struct smd_error error = {""};
	int ret = digits_cluster_read(text, &cluster, &error);

	check_outcome(ret, &error);
	if (ret == 0) {
		must_hold(cluster.nranks >= 1 && cluster.rank >= 0);
		must_hold(cluster.rank < cluster.nranks);
	}
	free(text);
	return 0;
}
