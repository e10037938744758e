/*
 * `summand help [WORD...]`: the page of a command, of a group of commands, or of a topic.
 */
#ifndef SMD_CLI_HELP_H
#define SMD_CLI_HELP_H

#include "orchestrator/cli/verbs.h"

/* `verbs` are those of the program. */
int smd_help_run(const struct smd_verbs *verbs, int argc, char **argv);

#endif
