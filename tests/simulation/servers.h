/*
 * Reduction servers of a history, each a process of the product's own engine.
 */
#ifndef SMD_TESTS_SIMULATION_SERVERS_H
#define SMD_TESTS_SIMULATION_SERVERS_H

#include "tests/simulation/world.h"

/* Processes: 0 is the test's own, then servers, then ranks, then servers that were started again.
 */
unsigned rank_process(int rank);

/* The next life of that server begins, beside the calling thread. */
void start_server(unsigned index);

/* It can be reached, and no fault has ended it. */
bool server_is_there(const struct simulated_server *server);

#endif
