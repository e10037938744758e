/*
 * The Slurm engine: a heterogeneous job that holds hosts, a component of it for each worker pool,
 * and a step in each that brings agents there; or steps in the allocation that this process runs in
 * (specs/design/slurm.md).
 */
#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/engine/slurm/holding.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define TICK_US     100000
#define AT_ONCE_NS  (SMD_SECOND_NS / 10) /* between two questions about the job: at first, */
#define SOON_NS     (SMD_SECOND_NS / 2)  /* after two seconds, */
#define LATER_NS    (2 * SMD_SECOND_NS)  /* after ten, and while it runs, */
#define LATE_NS     (10 * SMD_SECOND_NS) /* after a minute */
#define GOING_MAX_S 20                   /* for its nodes to say that nothing is left there, */

static struct slurm_engine *slurm_from(struct smd_engine *engine)
{
	return (struct slurm_engine *)engine;
}

/* ---- the job ---- */

/* The nodes that the job's components need of a partition; 0 for a list of some. */
static int needs_of(const struct slurm_engine *slurm, const char *partition)
{
	int needs = 0;

	for (size_t i = 0; i < slurm->job.count; i++) {
		if (strcmp(slurm->job.components[i].partition, partition) == 0) {
			needs += slurm->job.components[i].nnodes;
		}
	}
	return needs;
}

/* One of scontrol's lines: "PartitionName=debug ... TotalNodes=4 ...". */
static void check_line(struct slurm_engine *slurm, char *line)
{
	static const char name[] = "PartitionName=";
	const char *total = strstr(line, " TotalNodes=");
	int has = total ? atoi(total + strlen(" TotalNodes=")) : 0;
	int needs;
	int replicas = 0;

	if (strncmp(line, name, strlen(name)) != 0 || has <= 0) {
		return;
	}
	line += strlen(name);
	line[strcspn(line, " ")] = '\0';
	needs = needs_of(slurm, line);
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		replicas += slurm->request->pools[pool].replicas;
	}
	if (needs > has) {
		smd_slurm_fail(slurm, 1,
			"Slurm: partition %s must have %d nodes%s, got %d; "
			"--slurm-option=workerpool1:--nodes=N puts the replicas of a pool on fewer",
			line, needs, needs == replicas ? ", one for each replica" : "", has);
	}
}

/* Slurm takes jobs that no partition has the nodes for, in case it gets some. */
static void take_partitions(void *owner, int status, char *output, char *words)
{
	struct slurm_engine *slurm = owner;
	char *rest = output;
	char *line;

	(void)words;
	slurm->asking = NULL;
	while (!status && (line = strsep(&rest, "\n"))) {
		check_line(slurm, line);
	}
}

static void check_partitions(struct slurm_engine *slurm)
{
	slurm->is_checked = 1;
	if (!slurm->inside[0]) {
		smd_slurm_ask(slurm,
			smd_slurm_words_of("scontrol", "--all", "--oneliner", "show", "partition",
				(char *)NULL),
			NULL, take_partitions);
	}
}

static void take_waiting(struct slurm_engine *slurm)
{
	const struct smd_slurm_component *speaker = smd_slurm_job_speaker(&slurm->job);

	if (slurm->phase == SMD_SLURM_HOLDING) {
		smd_slurm_fail(slurm, 0, "%s",
			slurm->ending[0] ? slurm->ending : "Slurm has requeued the job");
		return;
	}
	smd_slurm_say_pending(slurm, "Slurm job %s is %s%s%s", slurm->id, speaker->state,
		speaker->reason[0] ? ", " : "", speaker->reason);
	if (!slurm->is_checked) {
		check_partitions(slurm);
	}
}

static void take_running(struct slurm_engine *slurm)
{
	if (slurm->phase == SMD_SLURM_QUEUED) {
		smd_slurm_ask_names(slurm);
	} else if (slurm->job.components[0].restarts != slurm->restarts) {
		smd_slurm_fail(slurm, 0, "Slurm has requeued job %s", slurm->id);
	} else {
		smd_slurm_lose_ended(slurm, 1);
	}
}

/* The variable of a shell that was in an allocation, and has stayed after its end. */
static int is_stale(struct slurm_engine *slurm)
{
	int is_one = slurm->inside[0] && slurm->phase == SMD_SLURM_QUEUED && !slurm->ending[0];

	if (is_one) {
		smd_slurm_fail(slurm, 1,
			"SLURM_JOB_ID names job %s, which has ended: unset it, and a job is "
			"submitted, or run summand in an allocation that is there",
			slurm->inside);
	}
	return is_one;
}

static void take_over(struct slurm_engine *slurm)
{
	const struct smd_slurm_component *speaker = &slurm->job.components[0];
	int is_final = strcmp(speaker->state, "PREEMPTED") != 0 &&
		       strcmp(speaker->state, "NODE_FAIL") != 0 &&
		       strcmp(speaker->state, "BOOT_FAIL") != 0;

	slurm->is_over = 1;
	if (is_stale(slurm)) {
		return;
	}
	if (slurm->ending[0]) {
		smd_slurm_fail(slurm, slurm->is_final, "%s", slurm->ending);
	} else {
		smd_slurm_fail(slurm, is_final, "Slurm has ended job %s: %s%s%s", slurm->id,
			speaker->state, speaker->reason[0] ? ", " : "", speaker->reason);
	}
}

/*
 * Agents that have gone by themselves have left nothing; Slurm then takes its nodes back. Otherwise
 * it still ends what is there, but a node that does not answer keeps the job from its end for long.
 */
static void take_going(struct slurm_engine *slurm)
{
	uint64_t now = smd_clock_ns();
	int have_gone = slurm->was_told == -1 && !slurm->ending[0];

	if (slurm->going_ns == 0) {
		slurm->going_ns = now;
	}
	if (slurm->released_ns && !smd_slurm_any_step(slurm) &&
		(have_gone || now - slurm->going_ns >= GOING_MAX_S * SMD_SECOND_NS)) {
		slurm->is_over = 1;
	}
}

/* An answer that was asked for before agents were told to end may be too old. */
static void explain_cancellation(struct slurm_engine *slurm, int is_known)
{
	int is_preempted = 0;

	if (slurm->is_cancelled == 0 || slurm->ending[0]) {
		return;
	}
	if (slurm->is_cancelled == 2) {
		slurm->is_cancelled = 1;
		slurm->ask_ns = 0;
		return;
	}
	for (size_t i = 0; is_known && i < slurm->job.count; i++) {
		is_preempted |= slurm->job.components[i].is_preempted;
	}
	smd_slurm_take_ending(
		slurm, is_preempted ? "it is preempted" : "it is cancelled", !is_preempted);
}

static void take_job(struct slurm_engine *slurm)
{
	switch (smd_slurm_job_phase(&slurm->job)) {
	case SMD_SLURM_WAITING:
		if (slurm->released_ns && slurm->was_told) {
			return;
		}
		take_waiting(slurm);
		break;
	case SMD_SLURM_RUNNING:
		if (!slurm->released_ns) {
			take_running(slurm);
		}
		break;
	case SMD_SLURM_GOING:
		take_going(slurm);
		/* Agents have their time; why it goes, its state says at the end. */
		if (slurm->phase == SMD_SLURM_QUEUED && !slurm->ending[0]) {
			smd_slurm_say_pending(slurm, "Slurm job %s is being ended", slurm->id);
		}
		break;
	case SMD_SLURM_OVER:
		take_over(slurm);
		break;
	}
}

static uint64_t pause_of(const struct slurm_engine *slurm)
{
	uint64_t age = smd_clock_ns() - slurm->begun_ns;

	if (slurm->released_ns) {
		age = smd_clock_ns() - slurm->released_ns;
	}
	if (age < 2 * SMD_SECOND_NS) {
		return AT_ONCE_NS;
	}
	if (slurm->released_ns || slurm->ending[0] ||
		(slurm->phase == SMD_SLURM_HOLDING && !smd_slurm_any_step(slurm))) {
		return SOON_NS;
	}
	if (slurm->phase == SMD_SLURM_HOLDING || age < 60 * SMD_SECOND_NS) {
		return age < 10 * SMD_SECOND_NS && slurm->phase == SMD_SLURM_QUEUED ? SOON_NS
										    : LATER_NS;
	}
	return LATE_NS;
}

static void take_state(void *owner, int status, char *output, char *words)
{
	struct slurm_engine *slurm = owner;
	char *kept = strdup(output);

	slurm->asking = NULL;
	slurm->ask_ns = smd_clock_ns() + pause_of(slurm);
	if (status && strstr(words, "Invalid job id")) {
		slurm->is_over = 1; /* it ended long ago */
		if (!is_stale(slurm)) {
			smd_slurm_fail(slurm, 1, "Slurm: job %s is not known any more", slurm->id);
		}
	} else if (status || !kept) {
		explain_cancellation(slurm, 0);
		if (slurm->phase == SMD_SLURM_QUEUED) {
			smd_slurm_say_pending(slurm, "Slurm: %s", smd_slurm_plain(words));
		}
	} else {
		smd_slurm_job_clear(&slurm->job);
		free(slurm->answer);
		slurm->answer = kept;
		kept = NULL;
		if (smd_slurm_job_parse(&slurm->job, slurm->answer)) {
			smd_slurm_fail(slurm, 1, "Slurm: scontrol must tell the state of job %s",
				slurm->id);
		} else {
			explain_cancellation(slurm, 1);
			take_job(slurm);
		}
	}
	free(kept);
}

void smd_slurm_ask_state(struct slurm_engine *slurm)
{
	smd_slurm_ask(slurm,
		smd_slurm_words_of(
			"scontrol", "--oneliner", "show", "job", slurm->id, (char *)NULL),
		NULL, take_state);
}

/* ---- asking for hosts ---- */

/* However this process ends, the keeper tells the job: one that has no hosts yet is cancelled, of
 * another the holder ends when its agents have. */
static void take_keeper_end(void *owner, int status, char *output, char *words)
{
	struct slurm_engine *slurm = owner;

	(void)status;
	(void)output;
	(void)words;
	slurm->keeper = NULL;
}

static int start_keeper(struct slurm_engine *slurm)
{
	char cleanup[3 * SMD_SLURM_ID_MAX + 128];
	char **argv;
	struct smd_slurm_command_options options = {.base = slurm->engine.base,
		.environment = slurm->environment,
		.outlives = 1,
		.on_end = take_keeper_end,
		.owner = slurm};
	int ret;

	snprintf(cleanup, sizeof(cleanup),
		"--cleanup=scancel --state=PENDING %s; scancel --batch --signal=USR2 %s || scancel %s",
		slurm->id, slurm->id, slurm->id);
	argv = smd_slurm_words_of(slurm->options.agent, "--grace=0", cleanup, "--", "sleep",
		"infinity", (char *)NULL);
	options.argv = argv;
	ret = argv ? smd_slurm_command_start(&slurm->keeper, &options) : -ENOMEM;
	smd_argv_free(argv);
	return ret;
}

/* What sbatch has printed; 1 when the job's number is there. Its end may come much later than the
 * line ("12", or "12;cluster"), and a site's own sbatch may say other things before that. */
static int take_number(struct slurm_engine *slurm, const char *output, int is_end)
{
	size_t length;

	while (*output) {
		size_t digits = strspn(output, "0123456789");

		length = strcspn(output, "\n");
		if (digits > 0 && digits < SMD_SLURM_ID_MAX && (output[length] || is_end) &&
			(digits == length || output[digits] == ';')) {
			snprintf(slurm->id, sizeof(slurm->id), "%.*s", (int)digits, output);
			return 1;
		}
		output += length + (output[length] == '\n');
	}
	return 0;
}

static void go_on_with_job(struct slurm_engine *slurm)
{
	slurm->phase = SMD_SLURM_QUEUED;
	slurm->ask_ns = 0;
	if (start_keeper(slurm)) {
		smd_log(SMD_LOG_WARN, "runner",
			"Slurm job %s stays until it ends by itself if this process is killed",
			slurm->id);
	}
	smd_slurm_say_pending(slurm, "Slurm has taken job %s", slurm->id);
	smd_slurm_ask_state(slurm);
}

static void take_line(void *owner, const char *output)
{
	struct slurm_engine *slurm = owner;

	if (!slurm->id[0] && take_number(slurm, output, 0)) {
		slurm->sbatch = slurm->asking;
		slurm->asking = NULL;
		go_on_with_job(slurm);
	}
}

/* A controller that answers late may have taken the job ("Socket timed out ..."). */
static void take_submission(void *owner, int status, char *output, char *words)
{
	struct slurm_engine *slurm = owner;

	if (slurm->sbatch) {
		slurm->sbatch = NULL;
		return;
	}
	slurm->asking = NULL;
	if (take_number(slurm, output, 1)) {
		go_on_with_job(slurm);
		return;
	}
	slurm->is_over = 1;
	slurm->is_unnamed = WIFSIGNALED(status) || strstr(words, "timed out") || !words[0];
	smd_slurm_fail(slurm, 1, "Slurm: %s",
		words[0] ? smd_slurm_plain(words) : "sbatch must print a job's number");
}

static int submit(struct slurm_engine *slurm, const struct smd_allocation_request *request)
{
	char *holder = smd_slurm_holder(request);
	char **argv = NULL;
	struct smd_slurm_command_options options = {.base = slurm->engine.base,
		.environment = slurm->environment,
		.input = holder,
		.on_print = take_line,
		.on_end = take_submission,
		.owner = slurm};
	uint64_t number;
	int ret = holder ? 0 : -ENOMEM;

	if (!ret && getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
		ret = -EIO;
	}
	if (!ret) {
		snprintf(slurm->mark, sizeof(slurm->mark), "summand-%016" PRIx64, number);
		argv = smd_slurm_submission(request, &slurm->options, slurm->mark);
		options.argv = argv;
		slurm->asked_ns = smd_clock_ns();
		ret = argv ? smd_slurm_command_start(&slurm->asking, &options) : -ENOMEM;
	}
	if (argv) {
		smd_argv_free(argv);
	}
	free(holder);
	return ret;
}

static void on_tick(evutil_socket_t fd, short what, void *arg);

static int allocate(struct smd_engine *engine, const struct smd_allocation_request *request,
	struct smd_error *error)
{
	static const struct timeval period = {.tv_usec = TICK_US};
	struct slurm_engine *slurm = slurm_from(engine);
	int ret;

	slurm->tick = event_new(engine->base, -1, EV_PERSIST, on_tick, slurm);
	if (!slurm->tick || event_add(slurm->tick, &period)) {
		return smd_error_set(error, ENOMEM, "engine: %s", strerror(ENOMEM));
	}
	slurm->request = request;
	slurm->begun_ns = smd_clock_ns();
	if (slurm->inside[0]) {
		snprintf(slurm->id, sizeof(slurm->id), "%s", slurm->inside);
		slurm->phase = SMD_SLURM_QUEUED;
		return 0;
	}
	slurm->phase = SMD_SLURM_SUBMITTING;
	ret = submit(slurm, request);
	if (ret) {
		slurm->asking = NULL;
		smd_slurm_fail(slurm, 1, "Slurm: sbatch cannot be started: %s", strerror(-ret));
	}
	return 0;
}

static void release_allocation(struct smd_engine *engine)
{
	struct slurm_engine *slurm = slurm_from(engine);

	if (slurm->phase != SMD_SLURM_IDLE && !slurm->released_ns) {
		slurm->released_ns = smd_clock_ns();
		slurm->ask_ns = 0;
	}
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct slurm_engine *slurm = arg;

	(void)fd;
	(void)what;
	if (slurm->released_ns) {
		smd_slurm_go_on_releasing(slurm);
		return;
	}
	smd_slurm_lose_ended(slurm, 0);
	if (!slurm->asking && !slurm->has_failed && slurm->id[0] &&
		smd_clock_ns() >= slurm->ask_ns) {
		smd_slurm_ask_state(slurm);
	}
}

static void close_engine(struct smd_engine *engine)
{
	struct slurm_engine *slurm = slurm_from(engine);

	smd_argv_free(slurm->environment);
	free(slurm);
}

static const struct smd_engine_ops slurm_ops = {
	.name = "slurm",
	.can_wait = 1,
	.allocate = allocate,
	.release = release_allocation,
	.explain = smd_slurm_explain,
	.close = close_engine,
};

/* ---- opening ---- */

static int find_programs(struct smd_error *error)
{
	static const char *const programs[] = {"sbatch", "srun", "scontrol", "scancel"};
	const char *path = getenv("PATH");

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		char *folders = strdup(path ? path : "");
		char *rest = folders;
		char *folder;
		int is_there = 0;

		while (folders && !is_there && (folder = strsep(&rest, ":"))) {
			char *file = NULL;

			is_there = asprintf(&file, "%s/%s", folder, programs[i]) > 0 &&
				   access(file, X_OK) == 0;
			free(file);
		}
		free(folders);
		if (!is_there) {
			return smd_error_set(error, ENOENT,
				"--engine=slurm: %s must be on PATH: Slurm's commands are needed "
				"where summand runs",
				programs[i]);
		}
	}
	return 0;
}

/* The job that this process was started in; or NULL. */
static const char *own_job(void)
{
	const char *id = getenv("SLURM_JOB_ID");

	return id && *id ? id : NULL;
}

int smd_engine_slurm_check(const struct smd_slurm_options *options, struct smd_error *error)
{
	const char *id = own_job();

	if (!id) {
		return 0;
	}
	if (strspn(id, "0123456789") != strlen(id) || strlen(id) >= SMD_SLURM_ID_MAX) {
		return smd_error_set(
			error, EINVAL, "SLURM_JOB_ID: must be a job's number, got %s", id);
	}
	if (options->partition || options->account || options->constraint || options->reservation ||
		options->noptions) {
		return smd_error_set(error, EINVAL,
			"--slurm-partition, --slurm-account, --slurm-constraint, "
			"--slurm-reservation, --slurm-option: must not be there inside Slurm job "
			"%s, whose hosts are used",
			id);
	}
	return 0;
}

/* The allocation that this process was started in is used, and not nested. */
static int look_inside(struct slurm_engine *slurm, struct smd_error *error)
{
	int ret = smd_engine_slurm_check(&slurm->options, error);

	if (!ret && own_job()) {
		snprintf(slurm->inside, sizeof(slurm->inside), "%s", own_job());
		slurm->is_in_step = getenv("SLURM_STEP_ID") != NULL;
	}
	return ret;
}

int smd_engine_slurm_open(
	struct smd_engine **out, const struct smd_slurm_options *options, struct smd_error *error)
{
	struct slurm_engine *slurm = calloc(1, sizeof(*slurm));
	int ret = slurm ? find_programs(error) : -ENOMEM;

	if (slurm) {
		slurm->engine.ops = &slurm_ops;
		slurm->options = *options;
		slurm->environment = smd_slurm_environment();
		ret = ret || slurm->environment ? ret : -ENOMEM;
	}
	ret = ret ? ret : look_inside(slurm, error);
	if (ret) {
		if (slurm) {
			close_engine(&slurm->engine);
		}
		return smd_error_set(error, -ret, "engine: %s", strerror(-ret));
	}
	*out = &slurm->engine;
	return 0;
}
