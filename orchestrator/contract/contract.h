/*
 * A job's environment contract from the inside: one family of variables per file.
 *
 * prepare builds what all processes share, once, into the contract; add gives one process its
 * variables. Both are pure: they read the job and the placement and nothing else.
 */
#ifndef SMD_CONTRACT_CONTRACT_H
#define SMD_CONTRACT_CONTRACT_H

#include "orchestrator/contract/environment.h"

#define SMD_CONTRACT_WARNINGS_MAX 8

struct smd_contract {
	const struct smd_job *job;
	const struct smd_placement *placement;
	char *spec;        /* ,"job":... as CLUSTER_SPEC and TF_CONFIG hold it; may be empty */
	char *cluster;     /* CLUSTER_SPEC's cluster, compact JSON; NULL: there is none */
	char *tf_cluster;  /* TF_CONFIG's cluster, compact JSON; NULL: there is none */
	char *master_host; /* the chief's host */
	unsigned master_port;
	int nodes;               /* replicas of pools 0 and 1 */
	int node_processes;      /* ranks on each of these */
	char *node_list;         /* "host;host"; NULL: nobody reads it */
	char *host_list;         /* "host,host" */
	char *reduction_servers; /* "host:port,..."; NULL: the job has none */
	char *output_dir;        /* without a slash at the end; NULL: the job writes nowhere */
	char *warnings[SMD_CONTRACT_WARNINGS_MAX];
	size_t nwarnings;
};

/* Whose variables are built. */
struct smd_position {
	int pool;
	int index;
	int process;
};

typedef int smd_family_prepare(struct smd_contract *contract);
typedef int smd_family_add(const struct smd_contract *contract, const struct smd_position *position,
	struct smd_environment *out);

/* The world of ranks, which several families use: pools 0 and 1, node by node. */
smd_family_prepare smd_world_prepare;
int smd_world_has(const struct smd_position *position);
int smd_world_size(const struct smd_contract *contract); /* in ranks */
int smd_world_node(const struct smd_contract *contract, const struct smd_position *position);
int smd_world_rank(const struct smd_contract *contract, const struct smd_position *position);

/* The spec as CLUSTER_SPEC and TF_CONFIG hold it. */
smd_family_prepare smd_spec_prepare;

smd_family_prepare smd_cluster_spec_prepare;
smd_family_add smd_cluster_spec_add;
smd_family_prepare smd_tf_config_prepare;
smd_family_add smd_tf_config_add;
smd_family_add smd_torch_add;
smd_family_add smd_mpi_add;
smd_family_prepare smd_output_prepare;
smd_family_add smd_vertex_add;
smd_family_prepare smd_azureml_prepare;
smd_family_add smd_azureml_add;
smd_family_add smd_nccl_add;
smd_family_prepare smd_summand_prepare;
smd_family_add smd_summand_add;

/*
 * Whether a variable of that many bytes can be passed to a program. If not, it is left out and the
 * contract has a warning with the remedy, so the cost of a process is bounded however large the job
 * is.
 */
int smd_contract_fits(
	struct smd_contract *contract, const char *name, size_t length, const char *remedy);

/* The same for a list of replicas with the spec behind it. */
int smd_contract_fits_with_spec(struct smd_contract *contract, const char *name, size_t length);

/* Remedies. */
#define SMD_FEWER_REPLICAS                                                                         \
	"have fewer replicas, or programs that find the others by MASTER_ADDR, RANK and "          \
	"WORLD_SIZE, as PyTorch's do"
#define SMD_FEWER_SERVERS "have fewer reduction servers, of a type with more bandwidth"
#define SMD_NO_SPEC       "summand-job-encoding: none leaves the spec out of it"

/* `text` with $(NAME) and $$ expanded from the environment, which the caller frees. -ENOMEM; -E2BIG
 * when it would have more than `max` bytes. */
int smd_environment_expand(
	const struct smd_environment *environment, const char *text, size_t max, char **out);

/* `text` in which each $NAME and ${NAME} of a variable that there is reads $(NAME); the caller
 * frees it. NULL: out of memory. */
char *smd_environment_refer(const struct smd_environment *environment, const char *text);

/* Appends a pool's endpoints to a JSON array of strings. 0 or -ENOMEM. */
int smd_placement_append_pool(
	const struct smd_job *job, const struct smd_placement *placement, int pool, json_t *list);

/* The host of "host:port" or "[v6 address]:port"; NULL when out of memory. */
char *smd_endpoint_host(const char *endpoint);

#endif
