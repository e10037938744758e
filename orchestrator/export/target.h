/*
 * What the targets of an export share.
 */
#ifndef SMD_EXPORT_TARGET_H
#define SMD_EXPORT_TARGET_H

#include "orchestrator/contract/environment.h"
#include "orchestrator/export/export.h"
#include "orchestrator/export/texts.h"

/* Vertex AI's port of a replica, which is free where each replica has an address of its own. */
#define SMD_EXPORT_PORT 2222

int smd_export_slurm(struct smd_export *export, struct smd_error *error);
int smd_export_jobset(struct smd_export *export, struct smd_error *error);
int smd_export_compose(struct smd_export *export, struct smd_error *error);

/* Says what the target leaves to the user. 0 or -ENOMEM. */
int smd_export_note(struct smd_export *export, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The pool's machine; 0 when there is one of that name in the catalogue, else -ENOENT, with a note
 * that `what` is left to the user. */
int smd_export_machine(
	struct smd_export *export, int pool, const char *what, struct smd_machine *out);

/* A replica's address as the target has it: "host:port", which the caller frees. */
typedef char *smd_export_endpoint(const struct smd_export *export, int pool, int index);

/* Places each replica where `endpoint` says. 0 or -ENOMEM. */
int smd_export_place(
	const struct smd_export *export, smd_export_endpoint *endpoint, struct smd_placement *out);

/* Where the job's reduction servers listen: any address of their host, and the port of `place`. */
int smd_export_place_listening(const struct smd_export *export, const struct smd_placement *place,
	struct smd_placement *out);

/* Notes what replicas have to do without where they are placed so. 0 or -errno. */
int smd_export_note_omissions(
	struct smd_export *export, int (*place)(const struct smd_export *, struct smd_placement *));

/* Whether the job brings reduction servers. */
int smd_export_has_servers(const struct smd_job *job);

/* The image that the pool's replicas run in. */
const char *smd_export_image(const struct smd_export *export, int pool);

/* Refuses what a container of an image cannot be: several processes of a replica that are started
 * one by one, and code that is a folder here. */
int smd_export_need_container(
	const struct smd_export *export, const char *target, struct smd_error *error);

/* The notes as comments, and what is before them. */
void smd_export_print_notes(const struct smd_export *export, FILE *out);

#endif
