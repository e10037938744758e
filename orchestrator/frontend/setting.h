/*
 * Settings of a job that the Vertex AI API has no field for.
 *
 * In a spec a setting is a label of the CustomJob, "summand-" and its name, so that the same file
 * stays valid for Google; on a command line it is an option of its name. This table is both.
 */
#ifndef SMD_FRONTEND_SETTING_H
#define SMD_FRONTEND_SETTING_H

#include <stddef.h>

#include "orchestrator/document/decode.h"

#define SMD_SETTING_PREFIX "summand-"

struct smd_setting {
	const char *name;
	const char *metavar;
	const char *help; /* one line */
	/* Takes the text into the place in the job; -EINVAL when it cannot. */
	int (*set)(const struct smd_setting *setting, const char *text, void *place);
	size_t offset;             /* in struct smd_job */
	const char *const *values; /* of enumerations: their names in order, then NULL */
	int min;                   /* of numbers */
	int max;
	const char *form; /* of neither: an extended regular expression, */
	const char *rule; /* and what must hold */
};

extern const struct smd_setting smd_settings[];
extern const size_t smd_nsettings;

struct smd_job;

/* NULL: there is no setting of that name. */
const struct smd_setting *smd_setting_find(const char *name);

/* Gives every setting its default. */
void smd_settings_init(struct smd_job *job);

/* What must hold for a setting's text: "must be chief, all-workers or any". */
void smd_setting_rule(const struct smd_setting *setting, char *text, size_t size);

/* The labels that are settings, as the properties of a JSON Schema; NULL: out of memory. */
json_t *smd_settings_describe(void);

/* Takes the settings out of a CustomJob's labels; errors among them go to the diagnostics. */
void smd_settings_decode(
	struct smd_decoder *decoder, const struct smd_node *labels, struct smd_job *job);

#endif
