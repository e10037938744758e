/* Shows what reducers on the workers' hosts gain, for each number of reduction servers. */
#include <limits.h>
#include <math.h>
#include <stdbool.h>

#include "orchestrator/job/hybrid.h"
#include "orchestrator/plan/plan.h"

#define ROWS_MAX    9   /* numbers of servers that people are shown, */
#define ENTRIES_MAX 129 /* and programs: evenly spread, where there are more */

struct smd_plan_hybrid smd_plan_hybrid(const struct smd_plan *plan)
{
	const struct smd_plan_choice *choice = &plan->choice;
	struct smd_plan_hybrid hybrid = {.workers = plan->workers,
		.worker_gbps = choice->machine_type ? choice->worker_gbps : plan->reach_gbps,
		.server_gbps = choice->machine_type ? choice->gbps : plan->gbps[2]};

	if (plan->workers < 3 || plan->worker_gbps <= 0 || hybrid.worker_gbps <= 0 ||
		(!choice->machine_type && plan->reduction_servers == 0) ||
		hybrid.server_gbps <= 0) {
		return (struct smd_plan_hybrid){.workers = plan->workers};
	}
	hybrid.ring_gbps = plan->worker_gbps / plan->workers;
	hybrid.needed =
		(int)fmin(INT_MAX, ceil(plan->workers * hybrid.worker_gbps / hybrid.server_gbps));
	return hybrid;
}

/* In units of what a worker needs to send all once. */
static double time_with(const struct smd_plan_hybrid *hybrid, int servers)
{
	return smd_hybrid_time(
		hybrid->workers, servers * hybrid->server_gbps / hybrid->worker_gbps);
}

static double ring_time(const struct smd_plan_hybrid *hybrid)
{
	return smd_hybrid_time(hybrid->workers, 0) * hybrid->worker_gbps / hybrid->ring_gbps;
}

double smd_plan_hybrid_speedup(const struct smd_plan_hybrid *hybrid, int servers)
{
	return ring_time(hybrid) / time_with(hybrid, servers);
}

double smd_plan_servers_speedup(const struct smd_plan_hybrid *hybrid, int servers)
{
	double part = servers * hybrid->server_gbps / (hybrid->workers * hybrid->worker_gbps);

	return ring_time(hybrid) * fmin(1, part);
}

double smd_plan_hybrid_seconds(const struct smd_plan_hybrid *hybrid, int servers)
{
	return time_with(hybrid, servers) * CHAR_BIT / hybrid->worker_gbps;
}

/* Number `i` of those that are shown, from none to as many as are needed. */
static int servers_of(const struct smd_plan_hybrid *hybrid, int i, int count)
{
	return (int)((int64_t)hybrid->needed * i / (count - 1));
}

static int count_of(const struct smd_plan_hybrid *hybrid, int most)
{
	return hybrid->needed < most ? hybrid->needed + 1 : most;
}

/* A time and how many times the speed of a ring that is; neither where nothing is reduced. */
static void print_cell(double seconds, double speedup, FILE *out)
{
	char time[32];

	if (speedup <= 0) {
		fprintf(out, "  %10s  %8s", "-", "");
		return;
	}
	snprintf(time, sizeof(time), "%.*f ms",
		seconds < 0.01  ? 2
		: seconds < 0.1 ? 1
				: 0,
		1000 * seconds);
	fprintf(out, "  %10s  %6.2f x", time, speedup);
}

static void print_row(const struct smd_plan_hybrid *hybrid, int servers, bool is_job, FILE *out)
{
	double ring = ring_time(hybrid) * CHAR_BIT / hybrid->worker_gbps;
	double alone = smd_plan_servers_speedup(hybrid, servers);

	fprintf(out, "%7d", servers);
	print_cell(alone > 0 ? ring / alone : 0, alone, out);
	print_cell(smd_plan_hybrid_seconds(hybrid, servers),
		smd_plan_hybrid_speedup(hybrid, servers), out);
	fputs(is_job ? "  <- this job\n" : "\n", out);
}

/* The job's own number has a row, whichever the others are. */
static void print_rows(const struct smd_plan_hybrid *hybrid, int own, FILE *out)
{
	int count = count_of(hybrid, ROWS_MAX);
	int before = -1;

	for (int i = 0; i < count; i++) {
		int servers = servers_of(hybrid, i, count);

		if (before < own && own < servers) {
			print_row(hybrid, own, true, out);
		}
		print_row(hybrid, servers, servers == own, out);
		before = servers;
	}
}

void smd_plan_hybrid_print(const struct smd_plan *plan, FILE *out)
{
	struct smd_plan_hybrid hybrid = smd_plan_hybrid(plan);

	if (hybrid.worker_gbps <= 0) {
		return;
	}
	fprintf(out,
		"\nan all-reduce of 1 GB, if links are what limits it, and its speed to that of a "
		"ring (%.0f ms):\n%7s  %-20s  %s\n",
		1000 * ring_time(&hybrid) * CHAR_BIT / hybrid.worker_gbps, "SERVERS",
		"       SERVERS ALONE", "AND REDUCERS ON WORKERS' HOSTS");
	print_rows(&hybrid, smd_job_has_servers(plan->job) ? plan->reduction_servers : -1, out);
	fputs("reducers: reduction servers that a job over several hosts starts on its workers' "
	      "hosts where those of worker pool 2 carry less (--hybrid=auto)\n",
		out);
}

json_t *smd_plan_hybrid_to_json(const struct smd_plan *plan)
{
	struct smd_plan_hybrid hybrid = smd_plan_hybrid(plan);
	int count = count_of(&hybrid, ENTRIES_MAX);
	json_t *list;

	if (hybrid.worker_gbps <= 0) {
		return json_null();
	}
	list = json_array();
	for (int i = 0; list && i < count; i++) {
		int servers = servers_of(&hybrid, i, count);

		json_array_append_new(
			list, json_pack("{s:i, s:f, s:f, s:f}", "reductionServers", servers,
				      "speedup", smd_plan_hybrid_speedup(&hybrid, servers),
				      "speedupAlone", smd_plan_servers_speedup(&hybrid, servers),
				      "secondsPerGb", smd_plan_hybrid_seconds(&hybrid, servers)));
	}
	return list;
}
