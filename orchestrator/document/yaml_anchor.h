/*
 * The anchors of a YAML document, and copies of what they stand for.
 *
 * A few bytes of aliases can stand for very much, so a copy counts: against the values that a
 * document may have, its levels, and the bytes of text that all copies may have together.
 */
#ifndef SMD_DOCUMENT_YAML_ANCHOR_H
#define SMD_DOCUMENT_YAML_ANCHOR_H

#include "orchestrator/document/document.h"

struct smd_yaml_anchor;

struct smd_yaml_anchors {
	struct smd_diagnostics *diagnostics;
	struct smd_yaml_anchor *list; /* in the order of the document */
	size_t count;
	size_t copied_bytes;
	int *values; /* of the document so far */
	struct smd_node
		*kept; /* what merging has taken out of the tree, and anchors may point to */
};

/* Gives the node that name from now on; it must live as long as the anchors. 0, -ENOMEM, or
 * -EINVAL with an error. */
int smd_yaml_anchor_put(
	struct smd_yaml_anchors *anchors, const char *name, const struct smd_node *node);

/* Adds a copy of what the name stands for to `open` (NULL: the root), which may not be within it.
 * 0, -ENOMEM, or -EINVAL with an error. */
int smd_yaml_alias_add(struct smd_yaml_anchors *anchors, const char *name, struct smd_node *open,
	const char *key, struct smd_source_position at, struct smd_node **out);

/*
 * Takes the members of an object's "<<", an object or an array of objects, into it, where it has
 * none of that name; of several objects the first one that has a name gives it. The names of the
 * object must differ. 0, -ENOMEM, or -EINVAL with an error.
 */
int smd_yaml_merge(struct smd_yaml_anchors *anchors, struct smd_node *object);

void smd_yaml_anchors_clear(struct smd_yaml_anchors *anchors);

#endif
