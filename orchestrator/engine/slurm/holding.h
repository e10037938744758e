/*
 * The hosts that Slurm holds for a job: what is known of them, and what the parts of the engine do
 * with that. Only slurm.c decides what comes next.
 */
#ifndef SMD_ENGINE_SLURM_HOLDING_H
#define SMD_ENGINE_SLURM_HOLDING_H

#include "orchestrator/engine/slurm/job.h"
#include "orchestrator/engine/slurm/step.h"

#define SMD_SLURM_ID_MAX   32
#define SMD_SLURM_TEXT_MAX 1024

enum smd_slurm_state {
	SMD_SLURM_IDLE,       /* there is no allocation */
	SMD_SLURM_SUBMITTING, /* sbatch has not answered yet */
	SMD_SLURM_QUEUED,     /* the job has no hosts, or scontrol has not said which */
	SMD_SLURM_HOLDING     /* steps have been started */
};

struct slurm_engine {
	struct smd_engine engine;
	struct smd_slurm_options options;
	char **environment;
	char inside[SMD_SLURM_ID_MAX]; /* the allocation this process is in; or empty */
	int is_in_step;                /* of that */

	const struct smd_allocation_request *request;
	enum smd_slurm_state phase;
	char id[SMD_SLURM_ID_MAX];        /* of the job; or empty */
	struct smd_slurm_command *asking; /* the one that is to answer; or NULL */
	struct smd_slurm_command *sbatch; /* which has named the job and not ended yet; or NULL */
	char mark[32];                    /* the job's comment, by which it is found */
	int is_unnamed;                   /* sbatch may have submitted it, and has not named it */
	struct smd_slurm_command *keeper; /* cancels the job at its end; or NULL */
	char *answer;                     /* what `job` points into */
	struct smd_slurm_job job;
	int is_checked; /* that partitions have nodes enough */
	int restarts;   /* of the job when it was granted */
	struct smd_slurm_host *hosts;
	int nhosts;
	struct smd_slurm_step *steps;
	int nsteps;
	char why[SMD_SLURM_TEXT_MAX];    /* it waits, as told last */
	char ending[SMD_SLURM_TEXT_MAX]; /* why Slurm ends the job; or empty */
	int is_final;                    /* and asking for other hosts is no use */
	int is_cancelled; /* agents are told to end, and the next answer says why; 2: the one after */
	int has_failed;
	int is_over; /* Slurm has no hosts for the job any more */
	uint64_t begun_ns;
	uint64_t going_ns; /* since when the job is being ended */
	uint64_t ask_ns;   /* when to ask next */
	uint64_t asked_ns; /* when `asking` began */
	struct event *tick;
	uint64_t released_ns; /* 0: it is not being released */
	int was_told;         /* the holder, to end */
};

/* ---- telling.c: what the runner hears, and questions to Slurm ---- */

void smd_slurm_report(struct slurm_engine *slurm, const struct smd_engine_event *event);

/* No hosts can be had, or no longer; `is_final`: others would not be, either. Only the first
 * counts. */
void smd_slurm_fail(struct slurm_engine *slurm, int is_final, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* It waits; told when the words are new. */
void smd_slurm_say_pending(struct slurm_engine *slurm, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void smd_slurm_lose(struct slurm_engine *slurm, struct smd_slurm_host *host, const char *text);

/* Asks one question, while there is no other. Takes over the words; NULL: out of memory. */
typedef void smd_slurm_answer_fn(void *owner, int status, char *output, char *words);
void smd_slurm_ask(
	struct slurm_engine *slurm, char **argv, const char *input, smd_slurm_answer_fn *take);
char **smd_slurm_words_of(const char *first, ...) __attribute__((sentinel));

/* One line of what a command says, until the next call. */
const char *smd_slurm_plain(const char *words);

/* ---- nodes.c: hosts and their agents ---- */

/* Asks which hosts the job has, announces them and starts agents there. */
void smd_slurm_ask_names(struct slurm_engine *slurm);
int smd_slurm_any_step(const struct slurm_engine *slurm);

/* Slurm ends the job: only the first word of that counts. */
void smd_slurm_take_ending(struct slurm_engine *slurm, const char *why, int is_final);

const char *smd_slurm_explain(struct smd_engine *engine, int number, char *words, size_t size);

/* Agents that have ended while the job has its hosts; `with_steps`: also where srun says nothing.
 */
void smd_slurm_lose_ended(struct slurm_engine *slurm, int with_steps);

/* ---- slurm.c ---- */

void smd_slurm_ask_state(struct slurm_engine *slurm);

/* ---- release.c: giving back ---- */

/* To be called each moment until RELEASED has been reported. */
void smd_slurm_go_on_releasing(struct slurm_engine *slurm);

#endif
