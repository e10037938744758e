/*
 * Engines that bring an agent to a host by a command whose standard input and output reach it. All
 * there is to say of such an engine is its hosts and their commands.
 */
#ifndef SMD_ENGINE_CARRIER_H
#define SMD_ENGINE_CARRIER_H

#include <stddef.h>

#include "orchestrator/engine/engine.h"

struct smd_carried_host {
	char *name;
	int slots;
	char **argv; /* runs the agent; found on PATH */
	int shown;   /* the index of the word that messages call it by */
};

/* Takes over the hosts (names, commands and the array), also where it fails. `is_local`: it is this
 * machine alone; what agents leave here is ended before the allocation is released. 0 or -errno. */
int smd_carrier_open(struct smd_engine **out, const struct smd_engine_ops *ops,
	struct smd_carried_host *hosts, size_t count, int is_local);

void smd_carried_hosts_free(struct smd_carried_host *hosts, size_t count);

/* The operations of such an engine. */
int smd_carrier_allocate(struct smd_engine *engine, const struct smd_allocation_request *request,
	struct smd_error *error);
void smd_carrier_release(struct smd_engine *engine);
const char *smd_carrier_explain(
	struct smd_engine *engine, int number, char *words, size_t size);
void smd_carrier_close(struct smd_engine *engine);

#endif
