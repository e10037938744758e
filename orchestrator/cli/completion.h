/*
 * `summand completion`: prints the scripts by which shells complete command lines, and answers what
 * these ask: which words may stand where the cursor is.
 *
 * The answers come from the tables of verbs and options themselves, so a script knows every option
 * of the program that it asks.
 */
#ifndef SMD_CLI_COMPLETION_H
#define SMD_CLI_COMPLETION_H

#include "orchestrator/cli/verbs.h"

/* `verbs` are those of the program. */
int smd_completion_run(const struct smd_verbs *verbs, int argc, char **argv);

#endif
