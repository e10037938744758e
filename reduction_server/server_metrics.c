/* Writes the metrics of a reduction server. */
#include "reduction_server/server_metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/engine/server.h"
#include "reduction_server/transport/shared_bytes.h"

#define NUMBER_MAX 16

/* X(name behind "summand_server_", type, figure, help): one sample of each shard */
#define SHARD_METRICS(X)                                                                           \
	X(received_bytes_total, counter, moved.bytes_received,                                     \
		"Bytes that workers have sent, headers and payloads.")                             \
	X(sent_bytes_total, counter, moved.bytes_sent,                                             \
		"Bytes that workers were sent, headers and payloads.")                             \
	X(skipped_bytes_total, counter, moved.bytes_skipped,                                       \
		"Bytes of payloads, in either direction, that were zeros and did not cross.")      \
	X(chunks_reduced_total, counter, chunks, "Chunks whose result was made.")                  \
	X(operations_total, counter, operations,                                                   \
		"Operations of which the shard has made the result of a chunk.")                   \
	X(lanes_attached_total, counter, lanes_ever, "Connections of workers that came.")          \
	X(late_reports_total, counter, late_reports, "How often the log has named late ranks.")    \
	X(lanes, gauge, lanes, "Connections of workers.")                                          \
	X(jobs, gauge, jobs, "Jobs that have groups.")                                             \
	X(groups_forming, gauge, forming, "Groups that some ranks have not joined yet.")           \
	X(groups_active, gauge, active, "Groups that all ranks have joined.")                      \
	X(slots_busy, gauge, busy_slots, "Chunks that are gathered, reduced or sent.")             \
	X(window_slots, gauge, window, "Slots that active groups may use at once.")                \
	X(memory_limit_bytes, gauge, memory_bytes, "Memory for chunks in flight.")                 \
	X(memory_reserved_bytes, gauge, reserved_bytes,                                            \
		"Memory for chunks in flight that is promised to groups.")                         \
	X(memory_used_bytes, gauge, used_bytes, "Memory for chunks in flight that has chunks.")    \
	X(weight, gauge, weight,                                                                   \
		"The share of chunks that the shard asks for, in Mbit/s of its link.")             \
	X(late_ranks, gauge, late, "Ranks that others have waited for, for a second or more.")

static void write_shards(
	struct smd_metrics_text *text, const struct smd_shard_figures *figures, unsigned n)
{
	char shard[NUMBER_MAX];
	const struct smd_metrics_label labels[] = {{"shard", shard}, {NULL, NULL}};

#define X(name_, type_, figure_, help_)                                                            \
	smd_metrics_begin(text, "summand_server_" #name_, #type_, help_);                          \
	for (unsigned i = 0; i < n; i++) {                                                         \
		snprintf(shard, sizeof(shard), "%u", i);                                           \
		smd_metrics_count(text, labels, figures[i].figure_);                               \
	}
	SHARD_METRICS(X)
#undef X
}

static void write_late(
	struct smd_metrics_text *text, const struct smd_shard_figures *figures, unsigned shard)
{
	for (unsigned i = 0; i < figures->late && i < SMD_LATE_FIGURES_MAX; i++) {
		const struct smd_late_figure *late = &figures->late_ranks[i];
		char shard_text[NUMBER_MAX];
		char rank[NUMBER_MAX];
		const struct smd_metrics_label labels[] = {{"shard", shard_text},
			{"group", late->group}, {"rank", rank}, {"replica", late->replica},
			{NULL, NULL}};

		snprintf(shard_text, sizeof(shard_text), "%u", shard);
		snprintf(rank, sizeof(rank), "%u", late->rank);
		smd_metrics_sample(text, labels, (double)late->waited_ns / (double)SMD_SECOND_NS);
	}
}

void smd_server_metrics_write(void *server, struct smd_metrics_text *text)
{
	const struct smd_metrics_label version[] = {{"version", SUMMAND_VERSION}, {NULL, NULL}};
	unsigned n = smd_server_shards(server);
	struct smd_shard_figures *figures = calloc(n, sizeof(*figures));

	if (!figures) {
		text->failed = true;
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		smd_server_read_figures(server, i, &figures[i]);
	}
	smd_metrics_begin(
		text, "summand_server_info", "gauge", "The version of the server; always 1.");
	smd_metrics_count(text, version, 1);
	write_shards(text, figures, n);
	smd_metrics_begin(text, "summand_server_late_rank_seconds", "gauge",
		"For how long others have waited for the rank, of at most 16 ranks of a shard.");
	for (unsigned i = 0; i < n; i++) {
		write_late(text, &figures[i], i);
	}
	smd_metrics_single(text, "summand_server_shared_memory_bytes", "gauge",
		"Memory that is shared with workers on this host.", (double)smd_shared_bytes());
	smd_metrics_process(text);
	free(figures);
}
