/*
 * A spec file as a tree of nodes that know where they stand in the file.
 *
 * The same tree comes from JSON and from YAML, so that nothing downstream knows which it was, and
 * every complaint about a value can name its line and column. Names are unique within an object,
 * strings are UTF-8 without NUL, and the tree is at most SMD_DOCUMENT_DEPTH_MAX deep and of at most
 * SMD_DOCUMENT_VALUES_MAX values: whoever reads a document may rely on all four.
 */
#ifndef SMD_DOCUMENT_DOCUMENT_H
#define SMD_DOCUMENT_DOCUMENT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define SMD_DOCUMENT_DEPTH_MAX  100
#define SMD_DOCUMENT_VALUES_MAX 100000 /* scalars, arrays and objects: far more than a job has */

struct smd_diagnostics;

enum smd_node_type {
	SMD_NODE_NULL,
	SMD_NODE_BOOLEAN,
	SMD_NODE_INTEGER,
	SMD_NODE_REAL,
	SMD_NODE_STRING,
	SMD_NODE_ARRAY,
	SMD_NODE_OBJECT
};

/* Both count from 1; columns count characters, not bytes. What a flag of the command line said is
 * in line 0, in the column of its place among the flags. */
struct smd_source_position {
	int line;
	int column;
	const char *flag; /* "--args"; NULL: the position is in the file */
};

struct smd_node {
	enum smd_node_type type;
	struct smd_source_position at; /* where the value begins */
	char *key;                     /* a member's name; NULL for anything else */
	struct smd_source_position key_at;
	union {
		int boolean;
		int64_t integer;
		double real;
	} number;
	char *string;            /* of SMD_NODE_STRING */
	char *written;           /* of numbers: as the file has them, "0x10"; NULL: as usual */
	struct smd_node *parent; /* NULL: the root */
	struct smd_node *next;   /* the next member or element of the parent */
	struct smd_node *first;  /* members or elements, in the file's order */
	struct smd_node *last;
	int is_root;  /* pointers begin here even if there is a parent */
	size_t index; /* place among the parent's */
	size_t count; /* how many members or elements */
};

/*
 * Parses JSON or YAML: by the name's ending (.json, .yaml, .yml), else JSON when the first
 * character is { or [. The caller frees *out with smd_node_free(). -EINVAL: the errors are in
 * diagnostics.
 */
int smd_document_parse(const char *name, const char *text, size_t length,
	struct smd_diagnostics *diagnostics, struct smd_node **out);

/* The two parsers behind it. */
int smd_document_parse_json(const char *text, size_t length, struct smd_diagnostics *diagnostics,
	struct smd_node **out);
int smd_document_parse_yaml(const char *text, size_t length, struct smd_diagnostics *diagnostics,
	struct smd_node **out);

/* Frees the node and everything below it. */
void smd_node_free(struct smd_node *node);

/* A new node, the last of the parent's (NULL: a root). Copies the key; NULL when out of memory. */
struct smd_node *smd_node_create(struct smd_node *parent, const char *key, enum smd_node_type type,
	struct smd_source_position at);

/* The same as a string with that text. */
struct smd_node *smd_node_create_string(
	struct smd_node *parent, const char *key, const char *text, struct smd_source_position at);

/* Makes it an empty node of that type, in its place and with its name. */
void smd_node_reset(struct smd_node *node, enum smd_node_type type, struct smd_source_position at);

/* Makes the root `child`, which has no name, the last element of parent. */
void smd_node_append(struct smd_node *parent, struct smd_node *child);

/* Makes all children of `from` those of `to`, which has none. */
void smd_node_move_children(struct smd_node *to, struct smd_node *from);

/* Takes the node and all below it out of its parent. */
void smd_node_detach(struct smd_node *node);

/* The same, and frees it. NULL: does nothing. */
void smd_node_remove(struct smd_node *node);

/* A copy of the node with all below it, the last of parent's. NULL: out of memory, and what was
 * copied is left with the parent. */
struct smd_node *smd_node_copy(struct smd_node *parent, const struct smd_node *node);

/* Makes the root `child` the last member of parent; pointers to what is in it stay as they were. */
int smd_node_adopt(struct smd_node *parent, const char *key, struct smd_node *child);

/* How many ancestors the node has. */
int smd_node_depth(const struct smd_node *node);

/* The node as a JSON value; NULL when out of memory. */
json_t *smd_node_to_json(const struct smd_node *node);

/* "/workerPoolSpecs/0/replicaCount" (RFC 6901), "" for the root; the caller frees it. Very long
 * names are cut in the middle. NULL when out of memory. */
char *smd_node_pointer(const struct smd_node *node);

#define SMD_NODE_TEXT_MAX 80

/* The value as an error message shows it: a scalar as JSON, a number as the file has it, cut when
 * long; "an array"; "an object". */
void smd_node_describe(const struct smd_node *node, char text[SMD_NODE_TEXT_MAX]);

/* The same with a number as its value is usually written: "16" for 0x10. */
void smd_node_value_text(const struct smd_node *node, char text[SMD_NODE_TEXT_MAX]);

#endif
