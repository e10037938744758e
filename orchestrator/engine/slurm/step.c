/* Starts srun, and reads what it and agents say on its standard error. */
#include "orchestrator/engine/slurm/step.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/environment.h"
#include "reduction_server/base/clock.h"

#define OWN "srun: "

static struct smd_slurm_host *host_at(struct smd_slurm_step *step, long number)
{
	return number >= 0 && number < step->count ? &step->hosts[number] : NULL;
}

/* "3-5,7: Exited with exit code 2": tasks are numbered as hosts are. */
static void note_ends(struct smd_slurm_step *step, const char *ranges)
{
	const char *how = strstr(ranges, ": ");
	const char *at = ranges;

	while (how && isdigit((unsigned char)*at)) {
		char *end;
		long from = strtol(at, &end, 10);
		long to = *end == '-' ? strtol(end + 1, &end, 10) : from;

		for (long number = from; number <= to && host_at(step, number); number++) {
			struct smd_slurm_host *host = &step->hosts[number];

			snprintf(host->how, sizeof(host->how), "%.100s", how + 2);
			host->ended_ns = smd_clock_ns();
		}
		at = *end == ',' ? end + 1 : end;
		if (at == end) {
			return;
		}
	}
}

/* srun's own words: "srun: error: node[3-5]: tasks 3-5: Exited with exit code 2". */
static void take_own(struct smd_slurm_step *step, const char *text)
{
	const char *tasks = strstr(text, ": task");

	snprintf(step->words, sizeof(step->words), "%s", text);
	if (tasks) {
		tasks += strlen(": task");
		tasks += *tasks == 's';
		note_ends(step, tasks + (*tasks == ' '));
	}
}

/* With --label each line of an agent begins with its number. */
static void take_line(void *owner, char *line)
{
	struct smd_slurm_step *step = owner;
	char *text = line + strspn(line, " ");
	char *rest;
	struct smd_slurm_host *host = host_at(step, strtol(text, &rest, 10));

	if (rest > text && strncmp(rest, ": ", 2) == 0 && host) {
		text = rest + 2;
		snprintf(host->said, sizeof(host->said), "%s", text);
	} else if (strncmp(text, OWN, strlen(OWN)) == 0) {
		take_own(step, text);
	}
	step->on_line(step->owner, text);
}

static void take_end(void *owner, int status, char *output, char *words)
{
	struct smd_slurm_step *step = owner;

	(void)output;
	(void)words;
	step->command = NULL;
	smd_slurm_command_describe(status, step->end, sizeof(step->end));
	step->on_end(step->owner);
}

int smd_slurm_step_start(struct smd_slurm_step *step, struct event_base *base,
	const struct smd_slurm_step_request *request, const char *invitation,
	char *const *environment)
{
	char **argv = smd_slurm_step_words(request);
	struct smd_slurm_command_options options = {.base = base,
		.argv = argv,
		.environment = environment,
		.input = invitation,
		.outlives = 1,
		.on_line = take_line,
		.on_end = take_end,
		.owner = step};
	int ret = argv ? smd_slurm_command_start(&step->command, &options) : -ENOMEM;

	step->has_begun = 1;
	smd_argv_free(argv);
	return ret;
}

void smd_slurm_step_explain(const struct smd_slurm_step *step, const struct smd_slurm_host *host,
	char *text, size_t size)
{
	if (host->said[0]) {
		snprintf(text, size, "host %s: %s", host->name, host->said);
	} else if (host->how[0]) {
		snprintf(text, size, "host %s: its agent: %s", host->name, host->how);
	} else {
		snprintf(text, size, "host %s: srun %s%s%s", host->name, step->end,
			step->words[0] ? ": " : "", step->words);
	}
}

void smd_slurm_step_tell(const struct smd_slurm_step *step, const struct smd_slurm_host *host,
	char *text, size_t size)
{
	if (host->said[0]) {
		snprintf(text, size, "it has said %s", host->said);
	} else {
		snprintf(text, size, "srun %s, and has said %s", step->command ? "runs" : step->end,
			step->words[0] ? step->words : "nothing");
	}
}
