/* The terminal that this program is at, while all keys go to somebody else. */
#ifndef SMD_CLI_OWN_TERMINAL_H
#define SMD_CLI_OWN_TERMINAL_H

#include <termios.h>

#include "worker/agent/wire/launch.h"

struct smd_own_terminal {
	int is_there; /* standard input and output are one */
	struct termios before;
	int is_raw;
};

void smd_own_terminal_find(struct smd_own_terminal *terminal);

/* What a command is to be shown on: this one's size and type; rows 0: there is none. */
struct smd_terminal smd_own_terminal_shape(const struct smd_own_terminal *terminal);

/* From now on all keys are read as they are pressed, Ctrl-C too; or no longer. */
void smd_own_terminal_make_raw(struct smd_own_terminal *terminal);
void smd_own_terminal_restore(struct smd_own_terminal *terminal);

#endif
