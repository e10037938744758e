/* Reads what the contract tells the programs of an MPI job. */
#include "worker/mpi/nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_FILE "SUMMAND_MPI_TOKEN_FILE"

int smd_mpi_nodes_read(struct smd_mpi_nodes *out, struct smd_error *error)
{
	const char *value = getenv(SMD_MPI_NODES);
	struct smd_mpi_nodes nodes = {.text = strdup(value ? value : "")};
	char *rest = nodes.text;
	size_t room = 1;
	char *item;

	for (const char *at = nodes.text; at && *at; at++) {
		room += *at == ',';
	}
	nodes.nodes = calloc(room, sizeof(*nodes.nodes));
	if (!nodes.text || !nodes.nodes) {
		smd_mpi_nodes_free(&nodes);
		return smd_error_set(error, ENOMEM, "out of memory");
	}
	while ((item = strsep(&rest, ","))) {
		char *endpoint = strchr(item, '=');

		if (!endpoint || endpoint == item || !endpoint[1]) {
			smd_mpi_nodes_free(&nodes);
			return smd_error_set(error, EINVAL,
				SMD_MPI_NODES ": must be NAME=HOST:PORT,..., got \"%.80s\"",
				value ? value : "");
		}
		*endpoint++ = '\0';
		nodes.nodes[nodes.count++] = (struct smd_mpi_node){item, endpoint};
	}
	*out = nodes;
	return 0;
}

const struct smd_mpi_node *smd_mpi_nodes_find(const struct smd_mpi_nodes *nodes, const char *name)
{
	for (size_t i = 0; i < nodes->count; i++) {
		if (strcmp(nodes->nodes[i].name, name) == 0) {
			return &nodes->nodes[i];
		}
	}
	return NULL;
}

void smd_mpi_nodes_free(struct smd_mpi_nodes *nodes)
{
	free(nodes->nodes);
	free(nodes->text);
	*nodes = (struct smd_mpi_nodes){.text = NULL};
}

int smd_mpi_party_read(
	struct smd_mpi_party *out, char token[SMD_TOKEN_MAX + 1], struct smd_error *error)
{
	const char *file = getenv(TOKEN_FILE);
	const char *job = getenv("SUMMAND_JOB_ID");

	if (!file || !job) {
		return smd_error_set(error, EINVAL,
			"%s: must be set, as the replicas of an MPI job have it",
			file ? "SUMMAND_JOB_ID" : TOKEN_FILE);
	}
	*out = (struct smd_mpi_party){.token = token, .job = job};
	return smd_token_read(TOKEN_FILE, file, token, error);
}

const char *smd_mpi_replica(void)
{
	const char *name = getenv("SUMMAND_REPLICA");

	return name ? name : "?";
}
