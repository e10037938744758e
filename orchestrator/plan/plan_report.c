/* Shows a plan, to people as a table and to programs as JSON. */
#include <string.h>

#include "orchestrator/job/shown.h"
#include "orchestrator/plan/plan.h"

#define CELL_MAX 64

/* One row of the table, as text. */
enum column { POOL, ROLE, REPLICAS, MACHINE, ACCELERATORS, GBPS, TOTAL, COLUMNS };

struct row {
	char cells[COLUMNS][CELL_MAX];
};

static const char *const headings[COLUMNS] = {
	"POOL", "ROLE", "REPLICAS", "MACHINE", "ACCELERATORS", "GBIT/S", "TOTAL"};

static void write_row(const struct smd_plan *plan, const struct smd_job_pool *pool, struct row *row)
{
	double gbps = plan->gbps[pool->index];

	snprintf(row->cells[POOL], CELL_MAX, "%d", pool->index);
	snprintf(row->cells[ROLE], CELL_MAX, "%s", smd_role_name(pool->role));
	snprintf(row->cells[REPLICAS], CELL_MAX, "%d", pool->replica_count);
	snprintf(
		row->cells[MACHINE], CELL_MAX, "%s", pool->machine_type ? pool->machine_type : "-");
	if (plan->accelerators[pool->index] > 0) {
		snprintf(row->cells[ACCELERATORS], CELL_MAX, "%d x %s",
			plan->accelerators[pool->index], plan->accelerator_types[pool->index]);
	} else {
		strcpy(row->cells[ACCELERATORS], "-");
	}
	if (gbps > 0) {
		snprintf(row->cells[GBPS], CELL_MAX, "%g", gbps);
		snprintf(row->cells[TOTAL], CELL_MAX, "%g", gbps * pool->replica_count);
	} else {
		strcpy(row->cells[GBPS], "-");
		strcpy(row->cells[TOTAL], "-");
	}
}

static int column_width(const struct row *rows, size_t nrows, int column)
{
	size_t width = 0;

	for (size_t i = 0; i < nrows; i++) {
		size_t length = strlen(rows[i].cells[column]);

		width = length > width ? length : width;
	}
	return (int)width;
}

/* Words begin and numbers end in line. */
static void print_table(const struct row *rows, size_t nrows, FILE *out)
{
	for (size_t r = 0; r < nrows; r++) {
		for (int c = 0; c < COLUMNS; c++) {
			int width = column_width(rows, nrows, c);
			int is_number = c == REPLICAS || c >= GBPS;

			fprintf(out, "%s%*s", c ? "  " : "", is_number ? width : -width,
				rows[r].cells[c]);
		}
		fputc('\n', out);
	}
}

static const char *plural(int count)
{
	return count == 1 ? "" : "s";
}

static void print_gbps(double gbps, FILE *out)
{
	if (gbps > 0) {
		fprintf(out, "%g Gbit/s", gbps);
	} else {
		fprintf(out, "bandwidth unknown");
	}
}

static void print_reduction(const struct smd_plan *plan, FILE *out)
{
	fprintf(out, "\n%d worker%s: ", plan->workers, plural(plan->workers));
	print_gbps(plan->worker_gbps, out);
	fprintf(out, "; %d reduction server%s: ", plan->reduction_servers,
		plural(plan->reduction_servers));
	print_gbps(plan->reduction_gbps, out);
	if (plan->needed > 0) {
		fprintf(out, "; needed: %d", plan->needed);
	}
	fputc('\n', out);
	if (plan->speedup > 0) {
		fprintf(out, "all-reduce, expected: %s%.2f times the speed of a ring\n",
			plan->speedup_is_bound ? "at most " : "", plan->speedup);
	}
	if (plan->has_nccl_plugin) {
		fprintf(out, "NCCL: all-reduces through the reduction servers, where "
			     "libnccl-net-summand.so is installed\n");
	}
}

static void print_choice(const struct smd_plan *plan, FILE *out)
{
	const struct smd_plan_choice *choice = &plan->choice;

	fprintf(out,
		"\n%d worker%s: %g Gbit/s; reduction servers to match: %d x %s, %g Gbit/s\n"
		"all-reduce with them, expected: %.2f times the speed of a ring\n",
		plan->workers, plural(plan->workers), plan->worker_gbps, choice->needed,
		choice->machine_type, choice->needed * choice->gbps, choice->speedup);
}

/* How the ranks of an MPI job begin. */
static void print_mpirun(const struct smd_job *job, FILE *out)
{
	int replicas = 1 + job->pools[1].replica_count;
	static const char *const launchers[] = {
		[SMD_MPI_CHOICE_ANY] = "mpirun of Open MPI or MPICH",
		[SMD_MPI_CHOICE_OPENMPI] = "mpirun of Open MPI",
		[SMD_MPI_CHOICE_MPICH] = "mpiexec.hydra of MPICH"};

	if (job->has_own_mpirun) {
		fprintf(out,
			"\nMPI: the command of workerpool0-0 starts the ranks on %d replica%s\n",
			replicas, plural(replicas));
	} else {
		fprintf(out,
			"\nMPI: %s on workerpool0-0 starts %d rank%s, %d on each of %d replica%s\n",
			launchers[job->mpi_choice], replicas * job->processes_per_replica,
			plural(replicas * job->processes_per_replica), job->processes_per_replica,
			replicas, plural(replicas));
	}
}

static void print_plan(const struct smd_plan *plan, FILE *out)
{
	const struct smd_job *job = plan->job;
	int replicas = smd_job_replica_count(job);
	struct row rows[1 + SMD_JOB_POOLS_MAX];
	size_t nrows = 1;

	for (int c = 0; c < COLUMNS; c++) {
		strcpy(rows[0].cells[c], headings[c]);
	}
	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		if (job->pools[i].replica_count > 0) {
			write_row(plan, &job->pools[i], &rows[nrows++]);
		}
	}
	fprintf(out, "job %s, %s: %d replica%s\n\n", job->id, job->display_name, replicas,
		plural(replicas));
	print_table(rows, nrows, out);
	if (job->launch == SMD_LAUNCH_MPIRUN) {
		print_mpirun(job, out);
	}
	if (plan->reduction_servers > 0) {
		print_reduction(plan, out);
	}
	if (plan->choice.machine_type) {
		print_choice(plan, out);
	}
	smd_plan_hybrid_print(plan, out);
	if (plan->advice) {
		fprintf(out, "\n%s\n", plan->advice);
	}
	for (size_t i = 0; i < plan->nwarnings; i++) {
		fprintf(out, "%swarning: %s\n", i == 0 ? "\n" : "", plan->warnings[i]);
	}
}

/* Names and machine types are foreign text. */
void smd_plan_print(const struct smd_plan *plan, FILE *out)
{
	struct smd_shown_text shown;

	smd_shown_open(&shown);
	if (shown.file) {
		print_plan(plan, shown.file);
	}
	smd_shown_print(&shown, out);
}

static json_t *number_or_null(double number)
{
	return number > 0 ? json_real(number) : json_null();
}

static json_t *pool_to_json(const struct smd_plan *plan, const struct smd_job_pool *pool)
{
	double gbps = plan->gbps[pool->index];

	return json_pack("{s:i, s:s, s:i, s:s?, s:s?, s:i, s:o, s:o}", "pool", pool->index, "role",
		smd_role_name(pool->role), "replicas", pool->replica_count, "machineType",
		pool->machine_type, "acceleratorType", plan->accelerator_types[pool->index],
		"acceleratorCount", plan->accelerators[pool->index], "gbps", number_or_null(gbps),
		"totalGbps", number_or_null(gbps * pool->replica_count));
}

static int append_parts(const struct smd_plan *plan, json_t *pools, json_t *warnings)
{
	int failed = !pools || !warnings;

	for (int i = 0; i < SMD_JOB_POOLS_MAX && !failed; i++) {
		if (plan->job->pools[i].replica_count > 0) {
			failed = json_array_append_new(
				pools, pool_to_json(plan, &plan->job->pools[i]));
		}
	}
	for (size_t i = 0; i < plan->nwarnings && !failed; i++) {
		failed = json_array_append_new(warnings, json_string(plan->warnings[i]));
	}
	return failed;
}

static json_t *choice_to_json(const struct smd_plan_choice *choice)
{
	if (!choice->machine_type) {
		return json_null();
	}
	return json_pack("{s:s, s:i, s:f, s:f}", "machineType", choice->machine_type,
		"reductionServers", choice->needed, "totalGbps", choice->needed * choice->gbps,
		"speedup", choice->speedup);
}

json_t *smd_plan_to_json(const struct smd_plan *plan)
{
	const struct smd_job *job = plan->job;
	json_t *pools = json_array();
	json_t *warnings = json_array();

	if (append_parts(plan, pools, warnings)) {
		json_decref(pools);
		json_decref(warnings);
		return NULL;
	}
	return json_pack(
		"{s:s, s:s, s:i, s:o, s:i, s:o, s:i, s:o, s:o, s:o, s:s?, s:o, s:b, s:o, s:b, s:o}",
		"jobId", job->id, "displayName", job->display_name, "replicas",
		smd_job_replica_count(job), "pools", pools, "workers", plan->workers, "workerGbps",
		number_or_null(plan->worker_gbps), "reductionServers", plan->reduction_servers,
		"reductionGbps", number_or_null(plan->reduction_gbps), "reductionServersNeeded",
		plan->needed > 0 ? json_integer(plan->needed) : json_null(), "choice",
		choice_to_json(&plan->choice), "advice", plan->advice, "speedup",
		number_or_null(plan->speedup), "speedupIsBound", plan->speedup_is_bound, "hybrid",
		smd_plan_hybrid_to_json(plan),
		"ncclPlugin", plan->has_nccl_plugin, "warnings", warnings);
}
