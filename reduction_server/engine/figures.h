/*
 * What a shard shows of itself to other threads: its counters, and whom others wait for.
 *
 * The data path knows nothing of it. The shard's janitor counts up, once a second or more often,
 * and publishes a copy; where somebody reads the last one at that moment, it leaves that as it is
 * and does not wait. So figures are about a second old, fit each other, and cost nothing where
 * nobody asks.
 */
#ifndef SMD_ENGINE_FIGURES_H
#define SMD_ENGINE_FIGURES_H

#include <pthread.h>
#include <stdint.h>

#include "reduction_server/transport/transport.h"

struct smd_comms;

#define SMD_LATE_FIGURES_MAX 16 /* ranks; the others are only counted */
#define SMD_LATE_FIGURES_S   1  /* who is waited for so long is shown */
#define SMD_LATE_NAME_MAX    128

/* A rank that others of its group wait for. */
struct smd_late_figure {
	char group[SMD_LATE_NAME_MAX]; /* "job/group" */
	char replica[SMD_LATE_NAME_MAX]; /* empty: it has not joined */
	unsigned rank;
	uint64_t waited_ns;
};

struct smd_shard_figures {
	struct smd_lane_counts moved; /* by all lanes that there were and are */
	uint64_t chunks;              /* reduced */
	uint64_t operations;          /* that chunks of were reduced */
	uint64_t lanes_ever;
	unsigned lanes;
	unsigned jobs;
	unsigned forming; /* communicators */
	unsigned active;
	unsigned busy_slots;
	unsigned window; /* slots that active communicators may use */
	uint64_t memory_bytes;
	uint64_t reserved_bytes; /* of it, promised to communicators */
	uint64_t used_bytes;     /* of it, with chunks */
	uint32_t weight;
	uint64_t late_reports; /* how often the log has named late ranks */
	unsigned late;         /* ranks; some may not be in the table */
	struct smd_late_figure late_ranks[SMD_LATE_FIGURES_MAX];
};

struct smd_published_figures {
	pthread_mutex_t lock;
	struct smd_shard_figures last;
};

/* Adds what communicators show. */
void smd_figures_add_comms(
	struct smd_shard_figures *figures, const struct smd_comms *comms, uint64_t now_ns);

void smd_figures_open(struct smd_published_figures *published);
void smd_figures_close(struct smd_published_figures *published);

/* On the shard's thread; does not wait. */
void smd_figures_publish(
	struct smd_published_figures *published, const struct smd_shard_figures *figures);

/* From any thread. */
void smd_figures_read(struct smd_published_figures *published, struct smd_shard_figures *out);

#endif
