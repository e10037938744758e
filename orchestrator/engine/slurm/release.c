/* Gives hosts back, or takes the job out of the queue. */
#include <event2/event.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/engine/slurm/holding.h"
#include "reduction_server/base/clock.h"
#include "reduction_server/base/log.h"

#define SOON_NS      (SMD_SECOND_NS / 2)
#define ASK_MAX_S    20 /* for each answer, once the hosts are to be given back; */
#define STEPS_MAX_S  20 /* for agents to go by themselves, */
#define HOLDER_MAX_S 25 /* for the holder after them, */
#define CANCEL_MAX_S 90 /* for Slurm to take the hosts back */

static void free_allocation(struct slurm_engine *slurm)
{
	smd_slurm_command_abandon(slurm->asking);
	smd_slurm_command_abandon(slurm->sbatch);
	smd_slurm_command_abandon(slurm->keeper);
	for (int i = 0; i < slurm->nsteps; i++) {
		smd_slurm_command_abandon(slurm->steps[i].command);
	}
	for (int i = 0; i < slurm->nhosts; i++) {
		free(slurm->hosts[i].name);
	}
	free(slurm->steps);
	free(slurm->hosts);
	smd_slurm_job_clear(&slurm->job);
	free(slurm->answer);
	event_free(slurm->tick);
	memset((char *)slurm + offsetof(struct slurm_engine, request), 0,
		sizeof(*slurm) - offsetof(struct slurm_engine, request));
}

static void signal_steps(struct slurm_engine *slurm, int signo)
{
	for (int i = 0; i < slurm->nsteps; i++) {
		if (slurm->steps[i].command) {
			smd_slurm_command_signal(slurm->steps[i].command, signo);
		}
	}
}

static void ignore_answer(void *owner, int status, char *output, char *words)
{
	struct slurm_engine *slurm = owner;

	(void)status;
	(void)output;
	(void)words;
	slurm->asking = NULL;
	slurm->ask_ns = 0;
}

static void cancel(struct slurm_engine *slurm)
{
	slurm->was_told = 1;
	slurm->ask_ns = smd_clock_ns() + SOON_NS;
	smd_slurm_ask(
		slurm, smd_slurm_words_of("scancel", slurm->id, (char *)NULL), NULL, ignore_answer);
}

/* When the agents have gone, the job's holder ends, and Slurm says that the job has completed. */
static void give_back_job(struct slurm_engine *slurm, uint64_t age_s)
{
	if (slurm->phase != SMD_SLURM_HOLDING || slurm->ending[0] || age_s >= HOLDER_MAX_S ||
		(smd_slurm_any_step(slurm) && age_s >= STEPS_MAX_S)) {
		cancel(slurm);
	} else if (!smd_slurm_any_step(slurm) && slurm->was_told == 0) {
		slurm->was_told = -1;
		smd_slurm_ask(slurm,
			smd_slurm_words_of(
				"scancel", "--batch", "--signal=USR1", slurm->id, (char *)NULL),
			NULL, ignore_answer);
	}
}

/* True when Slurm has nothing of it any more. */
static int is_given_back(struct slurm_engine *slurm, uint64_t age_s)
{
	if (slurm->inside[0]) {
		if (smd_slurm_any_step(slurm) && age_s >= STEPS_MAX_S) {
			signal_steps(slurm, age_s < HOLDER_MAX_S ? SIGTERM : SIGKILL);
		}
		return !smd_slurm_any_step(slurm);
	}
	if (slurm->is_over && !smd_slurm_any_step(slurm)) {
		return 1;
	}
	if (age_s >= CANCEL_MAX_S) {
		smd_log(SMD_LOG_WARN, "runner",
			"Slurm job %s: must be gone within %d s of its cancellation; see `scontrol "
			"show job %s`",
			slurm->id, CANCEL_MAX_S, slurm->id);
		return 1;
	}
	if (slurm->was_told <= 0 && !slurm->is_over) {
		give_back_job(slurm, age_s);
	}
	if (!slurm->asking && !slurm->is_over && smd_clock_ns() >= slurm->ask_ns) {
		smd_slurm_ask_state(slurm);
	}
	return 0;
}

/* Lines of "MARK NUMBER": a component of the job each. */
static void take_found(void *owner, int status, char *output, char *words)
{
	struct slurm_engine *slurm = owner;
	const char *at = strstr(output, slurm->mark);
	size_t digits;

	(void)words;
	slurm->asking = NULL;
	at = at ? at + strlen(slurm->mark) : "";
	at += strspn(at, " ");
	digits = strspn(at, "0123456789");
	if (!status && digits > 0 && digits < SMD_SLURM_ID_MAX) {
		snprintf(slurm->id, sizeof(slurm->id), "%.*s", (int)digits, at);
		slurm->is_over = 0;
	} else if (status || slurm->options.noptions > 0) {
		smd_log(SMD_LOG_WARN, "runner",
			"Slurm: sbatch has not told whether it has submitted a job: cancel it if "
			"`squeue --me` shows one of the name %s",
			slurm->request->name);
	}
}

/* The components' numbers in order: to cancel the first is to cancel all. */
static void seek(struct slurm_engine *slurm)
{
	char user[32];

	slurm->is_unnamed = 0;
	snprintf(user, sizeof(user), "--user=%u", (unsigned)geteuid());
	smd_slurm_ask(slurm,
		smd_slurm_words_of(
			"squeue", "--noheader", user, "--sort=i", "--format=%k %A", (char *)NULL),
		NULL, take_found);
}

void smd_slurm_go_on_releasing(struct slurm_engine *slurm)
{
	uint64_t age_s = (smd_clock_ns() - slurm->released_ns) / SMD_SECOND_NS;

	if (slurm->asking) {
		uint64_t since =
			slurm->asked_ns > slurm->released_ns ? slurm->asked_ns : slurm->released_ns;

		if (smd_clock_ns() - since >= ASK_MAX_S * SMD_SECOND_NS) {
			smd_slurm_command_signal(slurm->asking, SIGKILL);
		}
		return;
	}
	if (slurm->is_unnamed) {
		seek(slurm);
		return;
	}
	if (slurm->id[0] && !is_given_back(slurm, age_s)) {
		return;
	}
	if (slurm->keeper && slurm->was_told != 2) {
		slurm->was_told = 2;
		smd_slurm_command_signal(slurm->keeper, SIGHUP);
	}
	if (slurm->keeper && age_s < CANCEL_MAX_S + ASK_MAX_S) {
		return;
	}
	free_allocation(slurm);
	smd_slurm_report(slurm, &(struct smd_engine_event){.kind = SMD_ENGINE_RELEASED});
}
