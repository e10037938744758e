/*
 * How far a replica says it is, how fast it gets on, and when it will be done if it goes on so
 * (specs/guide/reporting.md).
 */
#ifndef SMD_RUNNER_REPLICA_PROGRESS_H
#define SMD_RUNNER_REPLICA_PROGRESS_H

#include <jansson.h>
#include <stdint.h>

#define SMD_REPLICA_PROGRESS_SAMPLES   16
#define SMD_REPLICA_PROGRESS_UNIT_SIZE 32

struct smd_replica_progress {
	int is_there; /* something was said */
	double done;
	double total; /* 0: it is not known */
	char unit[SMD_REPLICA_PROGRESS_UNIT_SIZE];
	/* What was said in the last minute, the oldest first, some seconds apart. */
	struct {
		uint64_t ns;
		double done;
	} samples[SMD_REPLICA_PROGRESS_SAMPLES];
	unsigned count;
	uint64_t last_ns;
};

/* Takes "DONE [TOTAL [UNIT]]". Less done than before is a new beginning. 0; -EINVAL: it is no such
 * text. */
int smd_replica_progress_take(
	struct smd_replica_progress *progress, const char *text, uint64_t now_ns);

void smd_replica_progress_clear(struct smd_replica_progress *progress);

/* In units per second, over the last minute; 0: it is not known. */
double smd_replica_progress_rate(const struct smd_replica_progress *progress);

/* Seconds from the last word to the end; less than 0: it is not known. */
double smd_replica_progress_rest(const struct smd_replica_progress *progress);

/* Whether `a` is less far than `b`: by their shares, if both know their totals. */
int smd_replica_progress_is_behind(
	const struct smd_replica_progress *a, const struct smd_replica_progress *b);

/* As records have it: done, total, unit, rate and estimatedEndTime. The caller owns a reference. */
json_t *smd_replica_progress_record(const struct smd_replica_progress *progress);

#endif
