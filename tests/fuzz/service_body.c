/*
 * Any bytes at all as the body of a request that creates a job: taken, or refused in Google's form.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/service/intake.h"
#include "tests/fuzz/input.h"

static struct smd_intake_rules rules;

static void open_rules(void)
{
	struct smd_catalogue *catalogue;
	struct smd_error error = {""};

	if (smd_catalogue_load(CATALOGUE, &catalogue, &error)) {
		fprintf(stderr, "%s\n", error.text);
		abort();
	}
	rules.catalogue = catalogue;
	rules.images = json_pack("{s:[s]}", "gcr.io/a/b", "true");
}

static void check_refusal(const struct smd_answer *answer)
{
	const json_t *error = json_object_get(answer->body, "error");

	must_hold(answer->status >= 400 && answer->status < 600);
	must_hold(json_integer_value(json_object_get(error, "code")) == (json_int_t)answer->status);
	must_hold(json_string_value(json_object_get(error, "message")) != NULL);
	must_hold(json_string_value(json_object_get(error, "status")) != NULL);
}

static void read_body(enum smd_stored_kind kind, const char *text, size_t length)
{
	struct smd_answer answer = {.status = 0};
	struct smd_intake intake;

	if (smd_intake_read(&rules, kind, text, length, &intake, &answer)) {
		check_refusal(&answer);
	} else {
		must_hold(answer.status == 0 && intake.spec && json_is_object(intake.resource));
		must_hold(intake.demand.cpus >= 0 && intake.demand.memory_bytes >= 0 &&
			  intake.demand.gpus >= 0);
		smd_intake_clear(&intake);
	}
	smd_answer_clear(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char *text = malloc(length + 1); /* a body may have NULs, and has one behind it */

	must_hold(text != NULL);
	memcpy(text, bytes, length);
	text[length] = '\0';
	if (!rules.catalogue) {
		open_rules();
	}
	read_body(SMD_STORED_CUSTOM_JOB, text, length);
	read_body(SMD_STORED_TUNING_JOB, text, length);
	free(text);
	return 0;
}
