/*
 * The tuner's tables in the plugin, called as the versions of NCCL call them that know each, one interface to all.
 * For tests of one thread: each begins with tuner_tables_open(), and fails where a call does.
 */
#ifndef SMD_TESTS_TUNER_TABLES_H
#define SMD_TESTS_TUNER_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/nccl_plugin/abi/nccl_abi.h"

#define ALGORITHMS 7
#define PROTOCOLS  3
#define MIB        ((size_t)1 << 20)
#define UNTOUCHED  (-7)
#define SHUT       (-2)

typedef float costs[ALGORITHMS][PROTOCOLS];

extern void *library;             /* the plugin */
extern unsigned informed, warned; /* lines that it has said, of tuning and warnings, */
extern char last_line[1024];      /* and the last one */

/* The plugin is there; else says why. */
bool tuner_tables_open(void);

/* A table of it by its name. */
void *table_of(const char *name);

/* A communicator's tuner by the table of that version, 2 to 5; where the number of ranks is not said there are two to a
 * node. */
void *open_tuner_for(int version, size_t nranks, size_t nnodes);
void *open_tuner(int version, size_t nnodes);
void close_tuner(int version, void *ctx);

/* Of versions that show costs: what NCCL would expect goes in, and what the tuner makes of it comes out. */
void ask(int version, void *ctx, int function, size_t bytes, costs table);

/* What a job of `summand` sets, with one server and from 1 MiB on: a test's setup. */
int variables_of_a_job(void **state);

/* So many servers, and no size from which on they are used. */
void give_servers(unsigned n);

#endif
