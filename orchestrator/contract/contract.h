/*
 * A job's environment contract from the inside: one family of variables per file.
 *
 * prepare builds what all replicas share, once, into the contract; add gives one replica its
 * variables. Both are pure: they read the job and the placement and nothing else.
 */
#ifndef SMD_CONTRACT_CONTRACT_H
#define SMD_CONTRACT_CONTRACT_H

#include "orchestrator/contract/environment.h"

struct smd_contract {
	const struct smd_job *job;
	const struct smd_placement *placement;
	char *spec;              /* the CustomJobSpec, compact JSON */
	char *cluster;           /* CLUSTER_SPEC's cluster, compact JSON */
	char *tf_cluster;        /* TF_CONFIG's cluster; NULL: the job has one replica */
	char *master_host;       /* the chief's host */
	char *reduction_servers; /* "host:port,..."; NULL: the job has none */
	char *output_dir;        /* without a slash at the end; NULL: the job writes nowhere */
};

int smd_cluster_spec_prepare(struct smd_contract *contract);
int smd_cluster_spec_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out);

int smd_tf_config_prepare(struct smd_contract *contract);
int smd_tf_config_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out);

int smd_torch_prepare(struct smd_contract *contract);
int smd_torch_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out);

int smd_vertex_prepare(struct smd_contract *contract);
int smd_vertex_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out);

int smd_summand_prepare(struct smd_contract *contract);
int smd_summand_add(
	const struct smd_contract *contract, int pool, int index, struct smd_environment *out);

/* `text` with $(NAME) and $$ expanded from the environment; NULL when out of memory. */
char *smd_environment_expand(const struct smd_environment *environment, const char *text);

/* A pool's endpoints as a JSON array of strings; NULL when out of memory. */
json_t *smd_placement_pool_json(
	const struct smd_job *job, const struct smd_placement *placement, int pool);

#endif
