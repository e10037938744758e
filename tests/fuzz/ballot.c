/*
 * Any bytes at all as a ballot of nodes that agree on CollNet: refused with a reason, or decoded
 * into texts that end, and into what encodes to the same ballot again.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "worker/nccl_plugin/collnet/ballot.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint8_t ballot[SMD_BALLOT_BYTES] = {0};
	uint8_t first[SMD_BALLOT_BYTES];
	uint8_t again[SMD_BALLOT_BYTES];
	struct smd_error error = {""};
	struct smd_ballot out;
	uint8_t *exact;
	int ret;

	memcpy(ballot, bytes, length < sizeof(ballot) ? length : sizeof(ballot));
	exact = input_exact(ballot, sizeof(ballot));
	ret = smd_ballot_decode(exact, &out, &error);
	free(exact);
	check_outcome(ret, &error);
	if (ret == 0) {
		must_hold(out.err <= 0 && out.err >= -4095);
		must_hold(memchr(out.name, '\0', sizeof(out.name)) != NULL);
		must_hold(memchr(out.text, '\0', sizeof(out.text)) != NULL);
		smd_ballot_encode(&out, first);
		must_hold(smd_ballot_decode(first, &out, &error) == 0);
		smd_ballot_encode(&out, again);
		must_hold(memcmp(first, again, sizeof(first)) == 0);
	}
	return 0;
}
