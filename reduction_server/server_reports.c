/* Writes a reduction server's figures to its notify pipe, those that have changed. */
#include "reduction_server/server_reports.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/clock.h"
#include "reduction_server/base/printable.h"
#include "reduction_server/engine/server.h"

/* X(key, the figure of a shard, which all shards have together) */
#define FIGURES(X)                                                                                 \
	X(received_bytes, moved.bytes_received)                                                    \
	X(sent_bytes, moved.bytes_sent)                                                            \
	X(chunks, chunks)                                                                          \
	X(lanes, lanes)                                                                            \
	X(slots_busy, busy_slots)                                                                  \
	X(window_slots, window)                                                                    \
	X(memory_used_bytes, used_bytes)                                                           \
	X(memory_limit_bytes, memory_bytes)                                                        \
	X(weight, weight)

enum {
#define X(key, figure) FIGURE_##key,
	FIGURES(X)
#undef X
	/* A group has parts in all shards: the most of them. */
	FIGURE_groups,
	FIGURE_late_seconds,
	FIGURE_COUNT
};

static const char *const keys[FIGURE_COUNT] = {
#define X(key, figure) [FIGURE_##key] = #key,
	FIGURES(X)
#undef X
		[FIGURE_groups] = "groups",
	[FIGURE_late_seconds] = "late_seconds",
};

struct server_report {
	uint64_t numbers[FIGURE_COUNT];
	char late_replica[SMD_LATE_NAME_MAX]; /* who is waited for the longest */
};

struct smd_server_reports {
	const struct smd_server *server;
	FILE *notify;
	struct event *tick;
	int is_begun;
	struct server_report told;
};

static void add_shard(struct server_report *values, const struct smd_shard_figures *figures)
{
#define X(key, figure) values->numbers[FIGURE_##key] += figures->figure;
	FIGURES(X)
#undef X
	if (values->numbers[FIGURE_groups] < figures->active) {
		values->numbers[FIGURE_groups] = figures->active;
	}
	for (unsigned i = 0; i < figures->late && i < SMD_LATE_FIGURES_MAX; i++) {
		const struct smd_late_figure *late = &figures->late_ranks[i];
		uint64_t seconds = late->waited_ns / SMD_SECOND_NS;

		if (late->replica[0] && seconds > values->numbers[FIGURE_late_seconds]) {
			values->numbers[FIGURE_late_seconds] = seconds;
			strcpy(values->late_replica, late->replica);
		}
	}
}

static void read_report(const struct smd_server *server, struct server_report *values)
{
	struct smd_shard_figures figures;

	*values = (struct server_report){.late_replica = ""};
	for (unsigned i = 0; i < smd_server_shards(server); i++) {
		smd_server_read_figures(server, i, &figures);
		add_shard(values, &figures);
	}
	smd_printable(values->late_replica); /* a worker has said it */
}

/* What fits a pipe that has room is written at once. */
static void write_changes(struct smd_server_reports *reports, const struct server_report *values)
{
	for (int i = 0; i < FIGURE_COUNT; i++) {
		if (!reports->is_begun || values->numbers[i] != reports->told.numbers[i]) {
			fprintf(reports->notify, "figure %s %" PRIu64 "\n", keys[i],
				values->numbers[i]);
		}
	}
	if (strcmp(values->late_replica, reports->told.late_replica) != 0) {
		fprintf(reports->notify, "figure late_replica %s\n",
			*values->late_replica ? values->late_replica : "-");
	}
	fflush(reports->notify);
	reports->told = *values;
	reports->is_begun = 1;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct smd_server_reports *reports = arg;
	struct pollfd pipe = {.fd = fileno(reports->notify), .events = POLLOUT};
	struct server_report values;

	(void)fd;
	(void)what;
	if (poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLOUT)) {
		read_report(reports->server, &values);
		write_changes(reports, &values);
	}
}

int smd_server_reports_open(struct event_base *base, const struct smd_server *server, FILE *notify,
	struct smd_server_reports **out)
{
	const struct timeval period = {.tv_sec = 1};
	struct smd_server_reports *reports = calloc(1, sizeof(*reports));

	if (!reports) {
		return -ENOMEM;
	}
	reports->server = server;
	reports->notify = notify;
	reports->tick = event_new(base, -1, EV_PERSIST, on_tick, reports);
	if (!reports->tick || event_add(reports->tick, &period)) {
		smd_server_reports_close(reports);
		return -ENOMEM;
	}
	*out = reports;
	return 0;
}

void smd_server_reports_close(struct smd_server_reports *reports)
{
	if (reports && reports->tick) {
		event_free(reports->tick);
	}
	free(reports);
}
