/*
 * The scripts of cli/completion as texts.
 */
#ifndef SMD_CLI_COMPLETION_SCRIPTS_H
#define SMD_CLI_COMPLETION_SCRIPTS_H

#include <stddef.h>

struct smd_completion_script {
	const char *shell;
	const char *text;
};

extern const struct smd_completion_script smd_completion_scripts[];
extern const size_t smd_ncompletion_scripts;

#endif
