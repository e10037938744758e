/*
 * Terminals: shells in replicas, for the page. Each is a session of the job's runner
 * (specs/design/runner.md, "Sessions"), of which requests take output and give input, both by how
 * many bytes there have been, so that one that is sent again changes nothing.
 */
#ifndef SMD_SERVICE_TERMINALS_H
#define SMD_SERVICE_TERMINALS_H

#include "orchestrator/service/desk.h"

#define SMD_TERMINALS_MAX 32 /* at once */

struct event_base;

/* 0 or -ENOMEM. */
int smd_terminals_open(struct smd_terminals **out, struct event_base *base);

/* Ends all shells. Requests that wait are answered by whoever ends their connections. */
void smd_terminals_close(struct smd_terminals *terminals);

/* Answers those that have waited long enough, and ends terminals that nobody looks at. Called a few
 * times a second. */
void smd_terminals_turn(struct smd_terminals *terminals);

#endif
