/*
 * The command of an Azure ML job: a line for the shell, with ${{inputs.NAME}} and ${{outputs.NAME}}
 * replaced as text, and $[[...]] left out where an input in it has no value.
 */
#ifndef SMD_FRONTEND_AZUREML_AZURE_COMMAND_H
#define SMD_FRONTEND_AZUREML_AZURE_COMMAND_H

#include "orchestrator/document/decode.h"

struct smd_azure_command {
	const struct smd_node *inputs;  /* or NULL */
	const struct smd_node *outputs; /* or NULL */
	const char *directory;          /* that local paths are relative to */
};

/*
 * The line that the shell gets, for the caller to free. Every "$" that $(NAME) of a spec would take
 * for its own is doubled. NULL: out of memory, or errors are in the decoder's diagnostics.
 */
char *smd_azure_command_expand(const struct smd_azure_command *command, struct smd_decoder *decoder,
	const struct smd_node *line);

/* The path as the program will see it: URIs and absolute paths as they are. For the caller to free.
 */
char *smd_azure_path(const char *directory, const char *path);

#endif
