/*
 * The replicas of an MPI job, as SUMMAND_MPI_NODES lists them for the chief:
 * workerpool0-0=host:port,workerpool1-0=host:port. The first one is the chief itself.
 */
#ifndef SMD_MPI_NODES_H
#define SMD_MPI_NODES_H

#include <stddef.h>

#include "reduction_server/base/error.h"
#include "reduction_server/base/token.h"
#include "worker/mpi/link.h"

#define SMD_MPI_NODES "SUMMAND_MPI_NODES"

struct smd_mpi_node {
	const char *name;
	const char *endpoint;
};

struct smd_mpi_nodes {
	struct smd_mpi_node *nodes;
	size_t count;
	char *text; /* that they point into */
};

/* Reads the variable. 0 or -errno with the error. */
int smd_mpi_nodes_read(struct smd_mpi_nodes *out, struct smd_error *error);
const struct smd_mpi_node *smd_mpi_nodes_find(const struct smd_mpi_nodes *nodes, const char *name);
void smd_mpi_nodes_free(struct smd_mpi_nodes *nodes);

/* The job's id and token, by SUMMAND_JOB_ID and SUMMAND_MPI_TOKEN_FILE. */
int smd_mpi_party_read(
	struct smd_mpi_party *out, char token[SMD_TOKEN_MAX + 1], struct smd_error *error);

/* This replica's name, for what is said to people. */
const char *smd_mpi_replica(void);

#endif
