/* Says in sbatch's and srun's words what a job needs. */
#include "orchestrator/engine/slurm/submission.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/contract/environment.h"

#define WORDS_MAX (SMD_JOB_POOLS_MAX * (24 + SMD_SLURM_OPTIONS_MAX))
#define MIB       (1024.0 * 1024.0)
#define MINUTE_S  60
#define HOUR_S    3600
#define DAY_S     86400
#define ENDING_S  600 /* beyond the job's time, which its runner keeps: to begin and to end */

/* The steps come from the runner. It ends them and this script (USR1); where it cannot, agents end
 * because they have lost it, and the script does when there is no step of theirs, which it looks
 * for each second once it is told that the runner is gone (USR2). SQUEUE_PARTITION and the like, of
 * a cluster's profile, would hide steps from it. */
static const char holder[] = "#!/bin/sh\n"
			     "unset $(env | sed -n 's/^\\(SQUEUE_[A-Z0-9_]*\\)=.*/\\1/p')\n"
			     "trap 'kill $!; exit 0' USR1\n"
			     "trap 'kill $!; exit 143' TERM\n"
			     "trap 'kill $!; pause=1 absent=0 most=1 left=%u' USR2\n"
			     "pause=30 absent=0 most=5 left=-1\n"
			     "while [ $absent -lt $most ] && [ $left -ne 0 ]; do\n"
			     "	sleep $pause &\n"
			     "	wait $!\n"
			     "	left=$((left - 1))\n"
			     "	steps=$(squeue --noheader --steps --jobs=\"$SLURM_JOB_ID\" "
			     "--format=%%i) || continue\n"
			     "	case $(echo \"$steps\" | grep -c '\\.[0-9]') in\n"
			     "	0) absent=$((absent + 1)) ;;\n"
			     "	*) absent=0; [ $pause = 1 ] || most=2 ;;\n"
			     "	esac\n"
			     "done\n";

char *smd_slurm_holder(const struct smd_allocation_request *request)
{
	char *text;

	return asprintf(&text, holder, request->grace_s + SMD_SLURM_LINGER_S) < 0 ? NULL : text;
}

struct word_list {
	char **texts;
	size_t count;
	int failed;
};

__attribute__((format(printf, 2, 3))) static void add(
	struct word_list *words, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	if (!words->texts || words->count >= WORDS_MAX ||
		vasprintf(&words->texts[words->count], format, values) < 0) {
		words->failed = 1;
		if (words->texts && words->count < WORDS_MAX) {
			words->texts[words->count] = NULL;
		}
	} else {
		words->count++;
	}
	va_end(values);
}

static char **finish(struct word_list *words)
{
	if (words->failed) {
		if (words->texts) {
			smd_argv_free(words->texts);
		}
		return NULL;
	}
	return words->texts;
}

static void add_name(struct word_list *words, const char *name)
{
	char plain[64];

	snprintf(plain, sizeof(plain), "%s", name);
	for (char *at = plain; *at; at++) {
		if (!isalnum((unsigned char)*at) && !strchr("._-", *at)) {
			*at = '-';
		}
	}
	add(words, "--job-name=%s", plain);
}

static void add_time(struct word_list *words, int64_t limit_s)
{
	int64_t seconds = limit_s + ENDING_S;

	if (limit_s > 0) {
		add(words, "--time=%" PRId64 "-%02d:%02d:%02d", seconds / DAY_S,
			(int)(seconds % DAY_S / HOUR_S), (int)(seconds % HOUR_S / MINUTE_S),
			(int)(seconds % MINUTE_S));
	}
}

/* "--OPTION", or for one pool "workerpool2:--OPTION"; the last one of its kind counts. */
static void add_options(struct word_list *words, const struct smd_slurm_options *options, int pool)
{
	static const char prefix[] = "workerpool";
	const size_t length = sizeof(prefix) - 1;

	for (size_t i = 0; i < options->noptions; i++) {
		const char *option = options->options[i];

		if (strncmp(option, prefix, length) != 0) {
			add(words, "%s", option);
		} else if (option[length] - '0' == pool && option[length + 1] == ':') {
			add(words, "%s", option + length + 2);
		}
	}
}

static void add_component(struct word_list *words, const struct smd_allocation_request *request,
	const struct smd_slurm_options *options, int pool, const char *mark)
{
	const struct smd_pool_request *wanted = &request->pools[pool];
	const struct {
		const char *name;
		const char *value;
	} named[] = {{"partition", options->partition}, {"account", options->account},
		{"constraint", options->constraint}, {"reservation", options->reservation}};

	add_name(words, request->name);
	add(words, "--comment=%s", mark);
	add(words, "--output=/dev/null");
	add(words, "--chdir=/");
	add(words, "--requeue");
	add(words, "--nodes=%d", wanted->replicas);
	add(words, "--ntasks-per-node=1");
	if (wanted->machine.cpus > 0) {
		add(words, "--cpus-per-task=%d", wanted->machine.cpus);
	}
	if (wanted->machine.memory_bytes > 0) {
		add(words, "--mem=%.0fM", (double)wanted->machine.memory_bytes / MIB);
	}
	if (wanted->gpus > 0) {
		add(words, "--gres=gpu:%d", wanted->gpus);
	}
	add_time(words, request->time_limit_s);
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		if (named[i].value) {
			add(words, "--%s=%s", named[i].name, named[i].value);
		}
	}
	add_options(words, options, pool);
}

int smd_slurm_pools(const struct smd_allocation_request *request, int pools[SMD_JOB_POOLS_MAX])
{
	int count = 0;

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		if (request->pools[pool].replicas > 0) {
			pools[count++] = pool;
		}
	}
	return count;
}

char **smd_slurm_submission(const struct smd_allocation_request *request,
	const struct smd_slurm_options *options, const char *mark)
{
	struct word_list words = {.texts = calloc(WORDS_MAX + 1, sizeof(char *))};
	int pools[SMD_JOB_POOLS_MAX];
	int count = smd_slurm_pools(request, pools);

	add(&words, "sbatch");
	add(&words, "--parsable");
	for (int i = 0; i < count; i++) {
		if (i > 0) {
			add(&words, ":");
		}
		add_component(&words, request, options, pools[i], mark);
	}
	return finish(&words);
}

/* What an administrator or the caller's variables may have set otherwise is said here. */
char **smd_slurm_step_words(const struct smd_slurm_step_request *request)
{
	struct word_list words = {.texts = calloc(WORDS_MAX + 1, sizeof(char *))};

	/* srun outlives a killed runner: with it Slurm would kill the agents at once. */
	add(&words, "%s", request->agent);
	add(&words, "--linger=%d", request->linger_s);
	add(&words, "--");
	add(&words, "srun");
	add(&words, "--jobid=%s", request->job);
	if (request->group >= 0) {
		add(&words, "--het-group=%d", request->group);
	}
	add(&words, "--nodes=%d", request->nhosts);
	add(&words, "--ntasks=%d", request->nhosts);
	add(&words, "--ntasks-per-node=1");
	add(&words, "--label");
	add(&words, "--kill-on-bad-exit=0");
	add(&words, "--wait=0");
	add(&words, "--cpu-bind=none");
	add(&words, "--mpi=none");
	if (request->group >= 0) { /* a container's step is asked for by it, too */
		add(&words, "--export=ALL,SUMMAND_SLURM_GROUP=%d", request->group);
	} else {
		add(&words, "--export=ALL");
	}
	add(&words, "--chdir=/");
	if (request->gres[0]) {
		add(&words, "--gres=%s", request->gres);
	}
	if (request->shares) {
		add(&words, "--overlap");
	}
	add(&words, "%s", request->agent);
	add(&words, "--host");
	add(&words, "--number-from=SLURM_NODEID");
	return finish(&words);
}

/* They say which job and step this process is of, or change what commands select, print and ask
 * for. A user's other SBATCH_* stay: they are that user's defaults, such as an account. */
static int is_slurms(const char *text)
{
	static const char *const prefixes[] = {"SLURM_", "SRUN_", "SQUEUE_", "SCONTROL_",
		"SCANCEL_", "SINFO_", "SACCT_", "SBATCH_WAIT=", "SBATCH_ARRAY_INX="};
	int is_one = 0;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		is_one |= strncmp(text, prefixes[i], strlen(prefixes[i])) == 0;
	}
	return is_one && strncmp(text, "SLURM_CONF", 10) != 0;
}

char **smd_slurm_environment(void)
{
	size_t count = 0;
	size_t kept = 0;
	char **copy;

	while (environ[count]) {
		count++;
	}
	copy = calloc(count + 1, sizeof(*copy));
	for (size_t i = 0; i < count && copy; i++) {
		if (is_slurms(environ[i])) {
			continue;
		}
		copy[kept] = strdup(environ[i]);
		if (!copy[kept++]) {
			smd_argv_free(copy);
			return NULL;
		}
	}
	return copy;
}
