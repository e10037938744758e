/* What stands in brackets behind a format's name, csv[no-heading,separator=";"], as gcloud has it.
 */
#ifndef SMD_CLI_FORMAT_ATTRIBUTES_H
#define SMD_CLI_FORMAT_ATTRIBUTES_H

#include "reduction_server/base/error.h"

enum smd_format_kind {
	SMD_FORMAT_JSON,
	SMD_FORMAT_YAML,
	SMD_FORMAT_FLATTENED,
	SMD_FORMAT_NONE,
	SMD_FORMAT_CSV,
	SMD_FORMAT_GET,
	SMD_FORMAT_TABLE,
	SMD_FORMAT_VALUE,
};

struct smd_format_attributes {
	int no_heading;
	int no_transforms;
	int no_pad;
	int no_quote;
	int quote;
	int box;
	char *separator;  /* between values; NULL: the format's own */
	char *delimiter;  /* between a value's items; likewise */
	char *terminator; /* after a record; likewise */
};

/* Reads NAME[=VALUE],... up to "]", if `*text` begins with "[", and advances it behind that.
 * -EINVAL: the format has no such attribute, and the error says which it has. */
int smd_format_attributes_parse(struct smd_format_attributes *attributes, enum smd_format_kind kind,
	const char *name, const char **text, struct smd_error *error);
void smd_format_attributes_destroy(struct smd_format_attributes *attributes);

#endif
