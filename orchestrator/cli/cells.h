/* The cells of a table, or of lines of values: a text for each row and column. */
#ifndef SMD_CLI_CELLS_H
#define SMD_CLI_CELLS_H

#include <stdio.h>

#include "orchestrator/cli/format_attributes.h"
#include "orchestrator/cli/format_key.h"

struct smd_cells {
	char **texts; /* row by row */
	size_t rows;
	const struct smd_format_keys *columns;
};

/* Columns under a heading. 0 or -ENOMEM. */
int smd_table_print(
	const struct smd_cells *cells, const struct smd_format_attributes *attributes, FILE *out);

/* A record for each row: the csv, value and get formats. 0 or -ENOMEM. */
int smd_values_print(const struct smd_cells *cells, enum smd_format_kind kind,
	const struct smd_format_attributes *attributes, FILE *out);

#endif
