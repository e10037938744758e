/* Reads the store for completion, and changes nothing there. */
#include "orchestrator/cli/completed_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/store/state_dir.h"
#include "reduction_server/base/printable.h"

#define OFFERED_MAX 100 /* more are not read */
#define PLAIN                                                                                      \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-" /* needs no quotes */

struct offers {
	const char *word;
	int count;
};

static int offer_job(void *arg, const struct smd_stored_job *job)
{
	struct offers *offers = arg;
	size_t length = strlen(offers->word);
	char id[24];

	snprintf(id, sizeof(id), "%" PRId64, job->id);
	if (strncmp(id, offers->word, length) == 0) {
		smd_print_line(stdout, "%s\t%s %s %.19s\n", id, job->display_name, job->state,
			job->create_time);
		offers->count++;
	}
	if (length > 0 && strncmp(job->display_name, offers->word, length) == 0 &&
		job->display_name[strspn(job->display_name, PLAIN)] == '\0') {
		smd_print_line(
			stdout, "%s\t%s %.19s\n", job->display_name, job->state, job->create_time);
		offers->count++;
	}
	return offers->count >= OFFERED_MAX;
}

void smd_completed_jobs_print(enum smd_stored_kind kind, const char *word)
{
	struct offers offers = {.word = word};
	struct smd_error error = {""};
	struct smd_store *store = NULL;
	char *state_dir = NULL;

	if (!smd_state_dir_open(&state_dir, &error) &&
		!smd_store_open_to_read(state_dir, &store, &error)) {
		smd_store_each(store, kind, SMD_STORE_LISTED, offer_job, &offers, &error);
	}
	smd_store_close(store);
	free(state_dir);
}
