/*
 * What a replica's processes get: their environment variables and their command line.
 *
 * The environment is a pure function of the job, the placement and the process, so it can be
 * printed without running anything. Parts that all processes share are built once, in the
 * contract. A variable that lists the whole cluster is left out, with a warning, when it is longer
 * than a program can be given, so the cost of a process is bounded.
 *
 * Order matters: service variables come first (CLUSTER_SPEC, TF_CONFIG, MASTER_ADDR, AIP_*,
 * SUMMAND_*), then the spec's own `env`, which may refer to earlier ones as $(NAME) and may
 * override them.
 */
#ifndef SMD_CONTRACT_ENVIRONMENT_H
#define SMD_CONTRACT_ENVIRONMENT_H

#include <stdio.h>

#include "orchestrator/job/job.h"
#include "reduction_server/base/parse.h"

/* Linux's MAX_ARG_STRLEN: a word of a command line, or NAME=VALUE, with the byte at its end. */
#define SMD_STRING_SIZE_MAX (128 * 1024)

/* What differs from host to host. */
struct smd_placement_host {
	char *interface;              /* that leads to the others; or NULL: any */
	char *rails;                  /* all that do, "eth1,eth2"; or NULL: that one alone */
	unsigned link_mbps;           /* of all; 0: not known */
	char *token_file;             /* the job's token there; or NULL: it has none */
	char *servers_file;           /* which reduction servers serve, there; or NULL */
	unsigned server_bandwidth_mbps; /* of each reduction server there; 0: not known, */
	unsigned server_parts; /* but that so many share what they find themselves; 0: nor that */
};

/* Where the replicas are: a runner's answer, or smd_placement_vertex() for printing. */
struct smd_placement {
	/* endpoints[pool][index]: "host:port", of a reduction server one for each network that it
	 * is in, "host:port+host:port"; a pool without replicas is NULL. */
	char **endpoints[SMD_JOB_POOLS_MAX];
	char *job_id;      /* of this run, for its reduction servers; NULL: the spec's own */
	char *metrics_dir; /* a trial's, for a file of metrics of each process; or NULL */
	char *output_dir;  /* stands in for the job's output_uri, where there is one; or NULL */
	/* MASTER_PORT, on the chief's host; 0: the platform's own. It is not the port of the
	 * chief's endpoint, so that a framework's rendezvous and what listens there do not meet. */
	unsigned master_port;
	/* Of all replicas, where there are no hosts; else of those on each host. */
	char *token_file; /* holds the token of the job's own reduction servers; or NULL: none */
	char *servers_file; /* says which of these serve, as long as the job runs; or NULL */
	char *interface;  /* the network interface that leads to the others; or NULL: any */
	struct smd_placement_host *hosts;
	size_t nhosts;
	int *host_of[SMD_JOB_POOLS_MAX]; /* of each replica; NULL: there are no hosts */
	/* So many of pool 2's replicas from this one on are reducers on workers' hosts, */
	int first_reducer;
	int nreducers;
	int nabsent; /* of those before it so many, the last ones, are not to run in this attempt */
	struct smd_share reducer_share; /* and get so much of a server's chunks; part 0: none are; */
	int spares_reducers; /* but only where operations gain by it, or no other server is left */
};

/* Whether that reduction server is a reducer on a worker's host. */
int smd_placement_is_reducer(const struct smd_placement *placement, int index);

/* Whether that reduction server is to run when the attempt begins. */
int smd_placement_has_server(const struct smd_placement *placement, int index);

/* The values of the replica's host, or of all. */
const char *smd_placement_interface(const struct smd_placement *placement, int pool, int index);
const char *smd_placement_rails(
	const struct smd_placement *placement, int pool, int index); /* NULL: one */
const char *smd_placement_token_file(const struct smd_placement *placement, int pool, int index);
const char *smd_placement_servers_file(const struct smd_placement *placement, int pool, int index);
unsigned smd_placement_link(const struct smd_placement *placement, int pool, int index); /* Mbit/s; 0: not known */
unsigned smd_placement_server_parts(const struct smd_placement *placement, int pool, int index);
unsigned smd_placement_server_bandwidth(
	const struct smd_placement *placement, int pool, int index); /* Mbit/s; 0: not known */

struct smd_environment {
	struct smd_variable *variables; /* no name occurs twice */
	size_t count;
	int has_servers; /* the job's own reduction servers are the only ones it is told of */
};

struct smd_contract;

/* Vertex AI's own names: cmle-training-workerpool1-<job id>-0:2222. */
int smd_placement_vertex(const struct smd_job *job, struct smd_placement *out);
void smd_placement_free(struct smd_placement *placement);

/* Forgets where the replicas are; what is the same everywhere stays. */
void smd_placement_forget_hosts(struct smd_placement *placement);

/* Builds the shared parts. The contract borrows job and placement, which must outlive it. */
int smd_contract_create(const struct smd_job *job, const struct smd_placement *placement,
	struct smd_contract **out);
void smd_contract_free(struct smd_contract *contract);

/* One message for each variable that does not fit into the job's environments; the contract owns
 * them. */
size_t smd_contract_warnings(const struct smd_contract *contract, char *const **out);

/* The variables of one of the replica's processes; the caller frees them with
 * smd_environment_free(). -E2BIG when one would be longer than SMD_STRING_SIZE_MAX. */
int smd_contract_environment(const struct smd_contract *contract, int pool, int index, int process,
	struct smd_environment *out);

/* A part of a pool's spec that becomes strings of its processes. */
enum smd_spec_part { SMD_SPEC_ENV, SMD_SPEC_COMMAND, SMD_SPEC_ARGS };

/* Calls back with the place of each string that would be longer than SMD_STRING_SIZE_MAX when it is
 * expanded for that process. 0 or -ENOMEM. */
int smd_contract_find_overlong(const struct smd_contract *contract, int pool, int index,
	int process, void (*take)(void *arg, enum smd_spec_part part, size_t place), void *arg);

/* Sets a variable; one of that name is overwritten in its place. The format's text is the value. */
int smd_environment_set(struct smd_environment *environment, const char *name, const char *format,
	...) __attribute__((format(printf, 3, 4)));
const char *smd_environment_get(const struct smd_environment *environment, const char *name);

/* Whether anything of it has to be masked, or is, because the job is a masked one (job/secret.h).
 */
int smd_environment_has_secrets(const struct smd_environment *environment);

/* What is shown of a variable's value: the mask, where its name says that it is a secret. */
const char *smd_variable_shown(const struct smd_variable *variable);

/* One line each for a shell to read, after what of the caller's environment is unset; -EIO when the
 * file cannot be written. If it masks, secrets are comments, and a remark says so: no program may
 * take a mask for a value. */
int smd_environment_print(
	const struct smd_environment *environment, char *const *caller, int masks, FILE *out);
void smd_environment_free(struct smd_environment *environment);

/* The text as a word that a shell reads back as it is; bash's own form only for control characters.
 */
void smd_shell_quote(const char *text, FILE *out);

/*
 * The replica's command + args with $(NAME) expanded from `environment` as Kubernetes does it: an
 * unresolved reference stays as it is, $$(NAME) escapes. A NULL-terminated vector that the caller
 * frees with smd_argv_free(); -E2BIG when a word would be longer than SMD_STRING_SIZE_MAX. A
 * reduction server's is its program: ["summand-reduction-server",
 * "--listen=HOST:PORT", "--token-file=FILE" where the job has a token, "--bandwidth=RATE" where it is
 * known, "--share=PART/WHOLE" where it is a reducer on a worker's host, "--spare" where that is one,
 * args...].
 */
int smd_contract_argv(const struct smd_contract *contract, int pool, int index,
	const struct smd_environment *environment, char ***out);
void smd_argv_free(char **argv);

#endif
