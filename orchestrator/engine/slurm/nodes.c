/* Brings agents to the hosts of a job, and sees which are lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/engine/slurm/holding.h"
#include "reduction_server/base/clock.h"

#define WORDS_NS (SMD_SECOND_NS / 2) /* for a host's last words to come */
#define LATER_NS (2 * SMD_SECOND_NS) /* between two questions about a job that runs */

static void start_steps(struct slurm_engine *slurm)
{
	for (int i = 0; i < slurm->nsteps; i++) {
		struct smd_slurm_step *step = &slurm->steps[i];
		const struct smd_slurm_step_request request = {.job = slurm->id,
			.agent = slurm->options.agent,
			.gres = slurm->job.components[i].gres,
			.group = slurm->job.is_heterogeneous ? slurm->job.components[i].offset : -1,
			.nhosts = step->count,
			.linger_s = (int)slurm->request->grace_s + SMD_SLURM_LINGER_S,
			.shares = slurm->is_in_step};
		char *line = slurm->request->invite(
			slurm->request->invite_arg, step->first, SMD_CARRIER_TCP, 0);
		int ret = line ? smd_slurm_step_start(step, slurm->engine.base, &request, line,
					 slurm->environment)
			       : -ENOMEM;

		if (line) {
			explicit_bzero(line, strlen(line));
		}
		free(line);
		if (ret) {
			smd_slurm_fail(
				slurm, 1, "Slurm: srun cannot be started: %s", strerror(-ret));
			return;
		}
	}
}

static void announce_hosts(struct slurm_engine *slurm)
{
	smd_slurm_report(slurm,
		&(struct smd_engine_event){.kind = SMD_ENGINE_GRANTED, .nhosts = slurm->nhosts});
	for (int i = 0; i < slurm->nsteps; i++) {
		const struct smd_slurm_step *step = &slurm->steps[i];

		for (int n = 0; n < step->count; n++) {
			const struct smd_engine_host host = {.number = step->first + n,
				.name = step->hosts[n].name,
				.pool = step->pool,
				.slots = step->slots,
				.read_fd = -1,
				.write_fd = -1};

			smd_slurm_report(slurm, &(struct smd_engine_event){.kind = SMD_ENGINE_HOST,
							.number = host.number,
							.host = &host});
		}
	}
}

void smd_slurm_take_ending(struct slurm_engine *slurm, const char *why, int is_final)
{
	if (slurm->ending[0]) {
		return;
	}
	snprintf(slurm->ending, sizeof(slurm->ending), "Slurm ends job %s: %s", slurm->id, why);
	slurm->is_final = is_final;
	slurm->ask_ns = 0;
	if (!slurm->released_ns && !slurm->has_failed) {
		smd_slurm_report(slurm, &(struct smd_engine_event){.kind = SMD_ENGINE_ENDING,
						.text = slurm->ending,
						.is_final = is_final});
	}
}

/* Why Slurm ends a step or the job, as it tells the step's agents: the job's state says it only
 * when all is over. A job that is preempted with a grace time is said to be cancelled. */
static void take_line(void *owner, const char *line)
{
	static const struct {
		const char *words;
		const char *text;
		int is_final;
	} causes[] = {
		{"DUE TO TIME LIMIT", "its time limit is over", 1},
		{"DUE TO PREEMPTION", "it is preempted", 0},
		{"DUE TO NODE FAILURE", "a node has failed", 0},
		{"DUE TO JOB REQUEUE", "it is requeued", 0},
	};
	static const char cancelled[] = "CANCELLED AT";
	static const char failure[] = "Node failure on ";
	struct slurm_engine *slurm = owner;
	const char *node = strstr(line, failure);
	char text[SMD_SLURM_TEXT_MAX];

	for (int i = 0; i < slurm->nhosts && node; i++) {
		if (strcmp(slurm->hosts[i].name, node + strlen(failure)) == 0) {
			snprintf(text, sizeof(text), "host %s: Slurm says that the node has failed",
				slurm->hosts[i].name);
			smd_slurm_lose(slurm, &slurm->hosts[i], text);
		}
	}
	if (!strstr(line, "*** ")) {
		return;
	}
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		if (strstr(line, causes[i].words)) {
			smd_slurm_take_ending(slurm, causes[i].text, causes[i].is_final);
		}
	}
	if (!slurm->ending[0] && !slurm->is_cancelled && strstr(line, cancelled)) {
		slurm->is_cancelled = slurm->asking ? 2 : 1;
		slurm->ask_ns = 0;
	}
}

/* Whether that is the job's end, Slurm knows. */
static void take_step_end(void *owner)
{
	struct slurm_engine *slurm = owner;

	slurm->ask_ns = 0;
}

int smd_slurm_any_step(const struct slurm_engine *slurm)
{
	for (int i = 0; i < slurm->nsteps; i++) {
		if (slurm->steps[i].command) {
			return 1;
		}
	}
	return 0;
}

/* Agents that have ended while the job has its hosts: `with_steps` also where srun says nothing. */
void smd_slurm_lose_ended(struct slurm_engine *slurm, int with_steps)
{
	uint64_t now = smd_clock_ns();

	if (slurm->ending[0] || slurm->is_cancelled) {
		return; /* not for reasons of their own */
	}
	for (int i = 0; i < slurm->nsteps; i++) {
		const struct smd_slurm_step *step = &slurm->steps[i];

		for (int n = 0; n < step->count; n++) {
			struct smd_slurm_host *host = &step->hosts[n];
			int has_ended = host->ended_ns && now - host->ended_ns >= WORDS_NS;
			char text[SMD_SLURM_TEXT_MAX];

			if (has_ended || (with_steps && step->has_begun && !step->command)) {
				smd_slurm_step_explain(step, host, text, sizeof(text));
				smd_slurm_lose(slurm, host, text);
			}
		}
	}
}

/* A host takes its pool's replicas: one, or as many as have to share it. In an allocation that was
 * made for something else hosts take any, as many as it has tasks on each. */
static void set_room(struct slurm_engine *slurm, struct smd_slurm_step *step,
	const struct smd_slurm_component *component, int index)
{
	int pools[SMD_JOB_POOLS_MAX];
	int count = smd_slurm_pools(slurm->request, pools);

	if (count == slurm->nsteps &&
		(!slurm->inside[0] ||
			step->count >= slurm->request->pools[pools[index]].replicas)) {
		const struct smd_pool_request *pool = &slurm->request->pools[pools[index]];

		step->pool = pools[index];
		step->slots = (pool->replicas + step->count - 1) / step->count * pool->slots;
		return;
	}
	step->pool = -1;
	step->slots = (component->ntasks + step->count - 1) / step->count;
	for (int i = 0; i < count; i++) {
		int slots = slurm->request->pools[pools[i]].slots;

		step->slots = slots > step->slots ? slots : step->slots;
	}
}

static int make_steps(struct slurm_engine *slurm)
{
	int first = 0;

	slurm->nsteps = (int)slurm->job.count;
	slurm->steps = calloc(slurm->job.count, sizeof(*slurm->steps));
	if (!slurm->steps) {
		slurm->nsteps = 0;
		return -ENOMEM;
	}
	for (int i = 0; i < slurm->nsteps; i++) {
		const struct smd_slurm_component *component = &slurm->job.components[i];

		if (component->nnodes < 1 || first + component->nnodes > slurm->nhosts) {
			return -EPROTO;
		}
		slurm->steps[i] = (struct smd_slurm_step){.hosts = slurm->hosts + first,
			.count = component->nnodes,
			.first = first,
			.on_line = take_line,
			.on_end = take_step_end,
			.owner = slurm};
		set_room(slurm, &slurm->steps[i], component, i);
		first += component->nnodes;
	}
	return first == slurm->nhosts ? 0 : -EPROTO;
}

static int make_hosts(struct slurm_engine *slurm, char *names)
{
	char *rest = names;
	char *name;

	while ((name = strsep(&rest, "\n"))) {
		struct smd_slurm_host *grown;

		if (!*name) {
			continue;
		}
		grown = realloc(slurm->hosts, (size_t)(slurm->nhosts + 1) * sizeof(*grown));
		if (!grown) {
			return -ENOMEM;
		}
		slurm->hosts = grown;
		grown[slurm->nhosts] = (struct smd_slurm_host){.name = strdup(name)};
		if (!grown[slurm->nhosts++].name) {
			return -ENOMEM;
		}
	}
	return 0;
}

static void take_names(void *owner, int status, char *output, char *words)
{
	struct slurm_engine *slurm = owner;
	int ret;

	slurm->asking = NULL;
	if (slurm->released_ns) {
		return;
	}
	if (status) {
		smd_slurm_fail(slurm, 0, "Slurm: the hosts of job %s cannot be had: %s", slurm->id,
			smd_slurm_plain(words));
		return;
	}
	ret = make_hosts(slurm, output);
	ret = ret ? ret : make_steps(slurm);
	if (ret) {
		smd_slurm_fail(slurm, 1, "Slurm: scontrol must name the hosts of job %s: %s",
			slurm->id, strerror(-ret));
		return;
	}
	slurm->phase = SMD_SLURM_HOLDING;
	announce_hosts(slurm);
	if (!slurm->released_ns) {
		start_steps(slurm);
	}
	slurm->ask_ns = smd_clock_ns() + LATER_NS;
}

void smd_slurm_ask_names(struct slurm_engine *slurm)
{
	char *list = NULL;
	size_t length;
	FILE *out = open_memstream(&list, &length);

	slurm->restarts = slurm->job.components[0].restarts;
	for (size_t i = 0; out && i < slurm->job.count; i++) {
		fprintf(out, "%s%s", i ? "," : "", slurm->job.components[i].nodes);
	}
	if (!out || fclose(out)) {
		smd_slurm_fail(slurm, 1, "Slurm: %s", strerror(ENOMEM));
	} else {
		smd_slurm_ask(slurm,
			smd_slurm_words_of("scontrol", "show", "hostnames", list, (char *)NULL),
			NULL, take_names);
	}
	free(list);
}

const char *smd_slurm_explain(struct smd_engine *engine, int number, char *words, size_t size)
{
	const struct slurm_engine *slurm = (const struct slurm_engine *)engine;
	const struct smd_slurm_host *host = &slurm->hosts[number];

	for (int i = 0; i < slurm->nsteps; i++) {
		const struct smd_slurm_step *step = &slurm->steps[i];

		if (number >= step->first && number < step->first + step->count) {
			smd_slurm_step_tell(step, host, words, size);
		}
	}
	return host->name;
}
