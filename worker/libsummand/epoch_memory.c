/* Counts what tables take. */
#include "worker/libsummand/epoch_memory.h"

#include "worker/libsummand/epoch.h"

static size_t epoch_bytes(const struct smd_epoch *epoch)
{
	size_t window = sizeof(*epoch->sends) + sizeof(*epoch->remote_buffers) +
			sizeof(*epoch->advertisements);
	size_t stream = sizeof(*epoch->flows) + SMD_FLOW_WINDOW_MAX * window +
			sizeof(*epoch->remotes) + sizeof(*epoch->weights);

	return sizeof(*epoch) + epoch->nremotes * stream + epoch->nitems * sizeof(*epoch->items) +
	       smd_deal_bytes(&epoch->own_deal);
}

static uint64_t comm_bytes(const struct smd_comm *comm, unsigned *ntables)
{
	uint64_t bytes = smd_epoch_agreement_bytes(comm) +
			 SMD_HISTORY_ENTRIES * sizeof(*comm->history.entries);

	*ntables = 0;
	for (const struct smd_epoch *epoch = &comm->base; epoch; epoch = epoch->next) {
		bytes += epoch_bytes(epoch);
		++*ntables;
	}
	for (const struct smd_epoch *epoch = comm->rescues; epoch; epoch = epoch->next) {
		bytes += epoch_bytes(epoch);
		++*ntables;
	}
	if (comm->candidate) {
		bytes += epoch_bytes(comm->candidate);
		++*ntables;
	}
	return bytes;
}

void smd_epoch_memory_measure(struct smd_comm *comm)
{
	struct smd_context_tables *all = &comm->context->tables;
	unsigned ntables;
	uint64_t bytes = comm_bytes(comm, &ntables);

	all->bytes += bytes - comm->table_bytes;
	comm->table_bytes = bytes;
	all->bytes_most = all->bytes > all->bytes_most ? all->bytes : all->bytes_most;
	all->count_most = ntables > all->count_most ? ntables : all->count_most;
}

void smd_epoch_memory_forget(struct smd_comm *comm)
{
	comm->context->tables.bytes -= comm->table_bytes;
	comm->table_bytes = 0;
}
