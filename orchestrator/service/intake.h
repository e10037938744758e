/*
 * A job as a request describes it: decoded and checked as a spec of the command line is, and
 * refused as Google's service refuses it.
 */
#ifndef SMD_SERVICE_INTAKE_H
#define SMD_SERVICE_INTAKE_H

#include "orchestrator/plan/machine.h"
#include "orchestrator/service/answer.h"
#include "orchestrator/store/queue.h"

struct smd_intake_rules {
	const struct smd_catalogue *catalogue;
	const json_t
		*images; /* commands that stand in for images: {"IMAGE": ["WORD", ...]}; or NULL */
	int runs_images; /* there is a container runtime */
	const char *secrets_folder; /* or NULL */
};

struct smd_intake {
	json_t *resource; /* as it may be shown: secrets are masked */
	char *spec;       /* as it is run */
	char *display_name;
	struct smd_demand demand;
	int priority;
	enum smd_preemption preemption;
	int64_t timeout_s;
	int64_t max_wait_s;
};

/* 0; else the request has been answered. */
int smd_intake_read(const struct smd_intake_rules *rules, enum smd_stored_kind kind,
	const char *body, size_t length, struct smd_intake *out, struct smd_answer *answer);
void smd_intake_clear(struct smd_intake *intake);

/* Why commands for images are not right: 0, or -EINVAL with a text. */
int smd_intake_check_images(const json_t *images, struct smd_error *error);

#endif
