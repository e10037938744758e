/* Respells keys, as gcloud takes them in either spelling. */
#include "orchestrator/cli/key_path.h"

#include <ctype.h>
#include <string.h>

#define LABELS "labels"

/* Up to where the keys are the user's. */
static const char *own_part(const char *path)
{
	for (const char *name = path; *name; name += strcspn(name, ".")) {
		name += *name == '.';
		if (strcspn(name, ".[") == strlen(LABELS) &&
			strncmp(name, LABELS, strlen(LABELS)) == 0) {
			return name;
		}
	}
	return path + strlen(path);
}

void smd_key_path_respell(char *path)
{
	const char *own = own_part(path);
	char *to = path;

	for (const char *from = path; *from; from++) {
		int joins = from < own && *from == '_' && from > path &&
			    isalnum((unsigned char)from[-1]) && islower((unsigned char)from[1]);

		*to++ = joins ? (char)toupper((unsigned char)*++from) : *from;
	}
	*to = '\0';
}
