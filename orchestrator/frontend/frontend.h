/*
 * A front end: one kind of document, or one family of flags, that describes a job.
 *
 * Every front end translates to the same thing, a CustomJob's document, which is then edited by
 * flags and decoded into a job; nothing downstream knows which front end it was. A new front end is
 * a folder beside this file and a row in smd_frontends (frontends.c).
 */
#ifndef SMD_FRONTEND_FRONTEND_H
#define SMD_FRONTEND_FRONTEND_H

#include "orchestrator/document/decode.h"
#include "orchestrator/job/job.h"

struct smd_field_text;
struct smd_flag_family;

/* A document on its way to a CustomJob's. */
struct smd_conversion {
	const char *directory; /* of the document: relative paths in it begin there */
	struct smd_diagnostics *diagnostics;
	/* What a CustomJob has no place for; NULL: the document says nothing of it. */
	char *code_dir;
	char *run_name;
};

struct smd_frontend {
	const char *name; /* of its documents, with an article; NULL: it has only flags */
	int (*recognises)(const struct smd_node *document);
	/* Puts a CustomJob's document in the place of *document; its nodes stand where those that
	 * they were made of stood. NULL: the document is one of the Vertex AI API already.
	 * -EINVAL: the errors are in the diagnostics. */
	int (*convert)(struct smd_conversion *conversion, struct smd_node **document);
	const struct smd_message *message; /* the document's fields */
	const char *schema;                /* its file in specs/schema, which others may share */
	const char *const *marks; /* fields of which any tells it from others of that file; NULL:
				     what is none of the others */
	const struct smd_field_text *texts;  /* what the document's fields mean */
	const struct smd_flag_family *flags; /* NULL: none */
};

/* Ends with a row of zeros. Of several that recognise a document the last has it: what is more
 * special stands below what is more general. */
extern const struct smd_frontend smd_frontends[];

/* Whether it is the table's last row, of zeros. */
int smd_frontend_is_end(const struct smd_frontend *row);

/* The row of that name; NULL: there is none. */
const struct smd_frontend *smd_frontend_named(const struct smd_frontend *table, const char *name);

/* The front end that the document is for; NULL: none recognises it. */
const struct smd_frontend *smd_frontend_find(
	const struct smd_frontend *table, const struct smd_node *document);

/* "a CustomJob, a CustomJobSpec or ...": what is accepted; the caller frees it. NULL: out of
 * memory. */
char *smd_frontend_names(const struct smd_frontend *table);

/* The JSON Schema of a file in specs/schema: of the rows that share it, made of their messages.
 * NULL: out of memory, or a message says too little; standard error has which. */
json_t *smd_frontend_schema(const struct smd_frontend *table, const char *schema);

/* Makes *document one of the Vertex AI API, by the front end that recognises it. What none
 * recognises is left for smd_frontend_decode() to refuse. */
int smd_frontend_convert(const struct smd_frontend *table, struct smd_conversion *conversion,
	struct smd_node **document);

/* The job of such a document; the caller frees it with smd_job_free(). -EINVAL: all errors are in
 * the diagnostics. */
int smd_frontend_decode(
	const struct smd_node *document, struct smd_diagnostics *diagnostics, struct smd_job **out);

#endif
