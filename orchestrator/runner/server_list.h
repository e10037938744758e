/* The file that says which reduction servers serve at present (SUMMAND_SERVERS_FILE). */
#ifndef SMD_RUNNER_SERVER_LIST_H
#define SMD_RUNNER_SERVER_LIST_H

#include "orchestrator/runner/run.h"

/* Writes it anew on all hosts if it is out of date. */
void smd_server_list_turn(struct smd_run *run);

#endif
