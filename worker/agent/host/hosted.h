/*
 * The processes of replicas on this host, each with its keeper: starts them, hands on what they
 * write, asks them to end, and says how they ended when nothing of them is left.
 */
#ifndef SMD_AGENT_HOST_HOSTED_H
#define SMD_AGENT_HOST_HOSTED_H

#include "worker/agent/host/spawn.h"
#include "worker/agent/wire/link.h"
#include "worker/agent/wire/message.h"

struct event_base;
struct smd_hosted;

#define SMD_HOSTED_ERRORS "errors" /* in the agent's own folder: what containers see of it */

/* What all of them share. */
struct smd_hosts_own {
	struct event_base *base;
	struct smd_agent_link *link;
	const char *folder;    /* the agent's own; "/": it has none */
	struct smd_descriptor_set descriptors;
	struct rlimit open_files; /* as the caller had it; replicas get it back */
	char *program_dir;        /* the agent's */
	char *plugin_dir;         /* with NCCL's plugin; NULL: it is not here */
	struct smd_hosted **hosted; /* by id; NULL: not in use */
	size_t nids;
	size_t count;     /* in use */
	unsigned nsteps;  /* of containers that are steps of Slurm, and sessions, so far */
	int children_ended;
	int has_orphans;  /* there may be children that are no keepers */
	int is_full;      /* the link has too much: nothing is read */
	int is_leaving;   /* whatever ends now has been lost */
};

/* Starts a process; what fails is told to the runner as its end. -EPROTO with a text when the id is
 * in use or too high. */
int smd_hosted_start(struct smd_hosts_own *own, const struct smd_agent_message *message,
	struct smd_error *error);

/* SIGTERM asks it to end, and ends it when its grace period is over; SIGKILL ends it at once. An id
 * that is not in use has just ended. */
void smd_hosted_signal(struct smd_hosts_own *own, uint32_t id, int signo);
void smd_hosted_signal_all(struct smd_hosts_own *own, int signo);

/* The runner takes so many bytes more of its output. */
void smd_hosted_give_credit(struct smd_hosts_own *own, uint32_t id, uint32_t bytes);

/* A session's input; no bytes are its end. -EPROTO with a text if it is more than it may be. */
int smd_hosted_feed(struct smd_hosts_own *own, const struct smd_agent_message *message,
	struct smd_error *error);
/* A session's terminal has another size. */
void smd_hosted_resize(struct smd_hosts_own *own, const struct smd_agent_message *message);

/* The link has room again, or has not. */
void smd_hosted_set_full(struct smd_hosts_own *own, int is_full);

/* To be called after each turn of the loop: takes the ends of keepers, ends what killed ones have
 * left, and kills those that were to end long ago and have not. */
void smd_hosted_turn(struct smd_hosts_own *own);

/* Ends what is left, now; nothing is told. */
void smd_hosted_close(struct smd_hosts_own *own);

#endif
