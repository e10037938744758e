/*
 * What the driver of CollNet plays, by name: each starts the servers that it needs, and runs fleets
 * on them. True when all went as it should.
 */
#ifndef TESTS_NCCL_PROXY_SCENARIOS_H
#define TESTS_NCCL_PROXY_SCENARIOS_H

#include <stdbool.h>

/* traffic.c: all goes well */
bool every_version(void);
bool every_operation(void);
bool bounce_buffer(void);
bool whole_buffer(void);
bool several_loops(void);
bool several_communicators(void);
bool many_communicators(void);

/* windows.c */
bool gather_and_scatter(void);

/* refusals.c: together or not at all */
bool decline_without_servers(void);
bool one_cannot_reach(void);
bool one_has_other_servers(void);
bool one_does_not_come(void);
bool one_dies_in_connect(void);
bool server_dies_in_connect(void);
bool several_cannot_reach(void);
bool servers_have_no_memory(void);

/* strangers.c */
bool strangers_come(void);

/* failures.c: in flight */
bool server_dies(void);
bool servers_return(void);
bool servers_stall(void);
bool rank_dies(void);
bool close_with_pending(void);
bool buffer_goes_first(void);

#endif
