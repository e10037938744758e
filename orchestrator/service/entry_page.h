/*
 * A page of a job's log entries, as Cloud Logging has them: the lines of its stream that a filter
 * has, and of a tuning job those of its trials, each with the trial's number as a label.
 *
 * In one second the job's lines come first, then each trial's; lines of a tuning job that runs are
 * shown when all of that second are there. Inside the room.
 */
#ifndef SMD_SERVICE_ENTRY_PAGE_H
#define SMD_SERVICE_ENTRY_PAGE_H

#include <jansson.h>

#include "orchestrator/service/filter.h"
#include "orchestrator/store/store.h"

#define SMD_ENTRY_JOB "resource.labels.job_id"

/* A line's place among all of the job. */
struct smd_entry_place {
	int64_t second;	 /* since 1970 */
	uint64_t number; /* in it, as insertId has it */
};

struct smd_entry_page {
	const struct smd_stored_job *job;
	struct smd_filter *filter; /* NULL: all */
	size_t size;
	int is_descending;
	size_t skipped;		     /* of the last ones, when descending */
	struct smd_entry_place from; /* where it begins, when ascending */
	/* Its own. */
	json_t *entries;
	int is_left; /* more follow, from `rest` on */
	struct smd_entry_place rest;
};

/* What a filter of entries knows. */
smd_filter_key_fn smd_entry_key_of;

/* {"entries", "nextPageToken"}; the caller owns a reference. NULL: out of memory, or the log cannot
 * be read. */
json_t *smd_entry_page_read(struct smd_entry_page *page);

#endif
