/* Draws the id of a run. */
#include "orchestrator/runner/run_id.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DIGITS_MASK 0xffffffffffu /* ten hexadecimal digits, as the spec's own id has */

int smd_run_id_draw(const struct smd_job *job, char **out, struct smd_error *error)
{
	uint64_t bits;

	*out = NULL;
	if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) {
		return smd_error_set(error, EIO, "the run's id: no random numbers are there");
	}
	if (asprintf(out, "%s-%010" PRIx64, job->id, bits & DIGITS_MASK) < 0) {
		*out = NULL;
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	return 0;
}
