/*
 * A job as a file that another system runs: a batch script of Slurm, a JobSet of Kubernetes, a
 * Compose file. One file for each target, and its row in export.c.
 *
 * A target gives the contract a placement of its own, with the names that replicas have there, and
 * writes down what the contract says. What it cannot express it refuses, or tells in a note, which
 * is a comment of the file and a warning.
 */
#ifndef SMD_EXPORT_EXPORT_H
#define SMD_EXPORT_EXPORT_H

#include <stdio.h>

#include "orchestrator/job/job.h"
#include "orchestrator/plan/machine.h"
#include "reduction_server/base/error.h"

#define SMD_EXPORT_NOTES_MAX  16
#define SMD_EXPORT_DIRECTIVES 32 /* of the scheduler, at most */

struct smd_export_options {
	/* Options of sbatch for all components, or "workerpool2:OPTION" for one. */
	const char *directives[SMD_EXPORT_DIRECTIVES];
	size_t ndirectives;
	const char *server_image;  /* in place of the reduction servers' image */
	const char *volume_claim;  /* what AIP_MODEL_DIR and the like are in; or NULL */
	const char *rdma_resource; /* an RDMA device's name in the cluster; or NULL */
};

/* What a target writes. */
struct smd_export {
	const struct smd_job *job; /* borrowed, like all here */
	const struct smd_catalogue *catalogue;
	const struct smd_export_options *options;
	char *name; /* of the job, as DNS allows it */
	char *notes[SMD_EXPORT_NOTES_MAX];
	size_t nnotes;
	char *text;     /* the file, or */
	json_t *object; /* the document that it is, with */
	char *head;     /* comment lines before it */
};

struct smd_export_target {
	const char *name;
	int runs_images; /* containers; else commands are run as processes of hosts */
	int (*write)(struct smd_export *export, struct smd_error *error);
};

/* NULL: there is none of that name. */
const struct smd_export_target *smd_export_target_find(const char *name);

/* Fills text or object and head, and notes. 0, or -errno with a text: -ENOTSUP for what the target
 * cannot express. To be closed in either case. */
int smd_export_write(const struct smd_export_target *target, const struct smd_job *job,
	const struct smd_catalogue *catalogue, const struct smd_export_options *options,
	struct smd_export *out, struct smd_error *error);
void smd_export_close(struct smd_export *export);

#endif
