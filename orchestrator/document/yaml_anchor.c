/* Anchors, aliases and merge keys of YAML. */
#include "orchestrator/document/yaml_anchor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/diagnostics.h"

#define ANCHORS_MAX      1000
#define COPIED_BYTES_MAX (64 << 20) /* as long as a document may be */
#define MERGE            "<<"

struct smd_yaml_anchor {
	char *name;
	const struct smd_node *node;
};

int smd_yaml_anchor_put(
	struct smd_yaml_anchors *anchors, const char *name, const struct smd_node *node)
{
	struct smd_yaml_anchor *list;
	char *copy;

	if (anchors->count == ANCHORS_MAX) {
		smd_error_in_text(anchors->diagnostics, node->at, "must have at most %d anchors",
			ANCHORS_MAX);
		return -EINVAL;
	}
	list = realloc(anchors->list, (anchors->count + 1) * sizeof(*list));
	if (!list) {
		return -ENOMEM;
	}
	anchors->list = list;
	copy = strdup(name);
	if (!copy) {
		return -ENOMEM;
	}
	anchors->list[anchors->count++] = (struct smd_yaml_anchor){.name = copy, .node = node};
	return 0;
}

/* The last one of that name. */
static const struct smd_node *find(const struct smd_yaml_anchors *anchors, const char *name)
{
	for (size_t i = anchors->count; i > 0; i--) {
		if (strcmp(anchors->list[i - 1].name, name) == 0) {
			return anchors->list[i - 1].node;
		}
	}
	return NULL;
}

static int is_within(const struct smd_node *node, const struct smd_node *outer)
{
	while (node && node != outer) {
		node = node->parent;
	}
	return node != NULL;
}

static size_t bytes_of(const struct smd_node *node, const char *key)
{
	return (node->string ? strlen(node->string) : 0) + (key ? strlen(key) : 0);
}

/* Counts a copy before it is made. */
static int allow(struct smd_yaml_anchors *anchors, const struct smd_node *node, const char *key,
	struct smd_source_position at, int depth)
{
	anchors->copied_bytes += bytes_of(node, key);
	if (++*anchors->values > SMD_DOCUMENT_VALUES_MAX) {
		smd_error_in_text(anchors->diagnostics, at,
			"must have at most %d values, those that aliases stand for included",
			SMD_DOCUMENT_VALUES_MAX);
		return -EINVAL;
	}
	if (anchors->copied_bytes > COPIED_BYTES_MAX) {
		smd_error_in_text(anchors->diagnostics, at,
			"aliases must stand for at most %d MiB of text", COPIED_BYTES_MAX >> 20);
		return -EINVAL;
	}
	if (depth > SMD_DOCUMENT_DEPTH_MAX) {
		smd_error_in_text(anchors->diagnostics, at, "must nest at most %d levels deep",
			SMD_DOCUMENT_DEPTH_MAX);
		return -EINVAL;
	}
	return 0;
}

/* `at` is where the alias stands, for errors; the copy's parts stand where the original's do. */
static int copy_node(struct smd_yaml_anchors *anchors, const struct smd_node *node,
	struct smd_node *parent, const char *key, struct smd_source_position at, int depth,
	struct smd_node **out)
{
	struct smd_node *made;
	int ret = allow(anchors, node, key, at, depth);

	if (ret) {
		return ret;
	}
	made = smd_node_create(parent, key, node->type, node->at);
	if (!made) {
		return -ENOMEM;
	}
	*out = made;
	made->key_at = node->key_at;
	made->number = node->number;
	made->string = node->string ? strdup(node->string) : NULL;
	made->written = node->written ? strdup(node->written) : NULL;
	if ((node->string && !made->string) || (node->written && !made->written)) {
		return -ENOMEM;
	}
	for (const struct smd_node *child = node->first; child && !ret; child = child->next) {
		struct smd_node *ignored = NULL;

		ret = copy_node(anchors, child, made, child->key, at, depth + 1, &ignored);
	}
	return ret;
}

int smd_yaml_alias_add(struct smd_yaml_anchors *anchors, const char *name, struct smd_node *open,
	const char *key, struct smd_source_position at, struct smd_node **out)
{
	const struct smd_node *node = find(anchors, name);
	int ret;

	if (!node) {
		smd_error_in_text(anchors->diagnostics, at,
			"an alias must have its anchor before it, got *%s", name);
		return -EINVAL;
	}
	if (is_within(open, node)) {
		smd_error_in_text(anchors->diagnostics, at,
			"an alias must not be part of what it stands for, got *%s", name);
		return -EINVAL;
	}
	ret = copy_node(anchors, node, open, key, at, open ? smd_node_depth(open) + 2 : 1, out);
	if (*out) {
		(*out)->at = at;
	}
	return ret;
}

/* A member that an object has or may get. */
struct candidate {
	const struct smd_node *node;
	size_t rank; /* the lowest of a name has it */
	int is_taken;
};

static int compare_names(const void *a, const void *b)
{
	const struct candidate *left = *(const struct candidate *const *)a;
	const struct candidate *right = *(const struct candidate *const *)b;
	int order = strcmp(left->node->key, right->node->key);

	return order ? order : left->rank < right->rank ? -1 : 1;
}

/* How many members the objects of the merge have together; -EINVAL when there are others. */
static int64_t count_members(struct smd_yaml_anchors *anchors, const struct smd_node *merge)
{
	int64_t count = 0;

	if (merge->type == SMD_NODE_OBJECT) {
		return (int64_t)merge->count;
	}
	for (const struct smd_node *node = merge->first; node; node = node->next) {
		count = node->type == SMD_NODE_OBJECT && count >= 0 ? count + (int64_t)node->count
								    : -1;
	}
	if (merge->type != SMD_NODE_ARRAY || count < 0) {
		smd_error_at_name(anchors->diagnostics, merge,
			"must merge an object, or an array of objects");
		return -EINVAL;
	}
	return count;
}

static size_t add_members(const struct smd_node *object, struct candidate *candidates, size_t count)
{
	for (const struct smd_node *node = object->first; node; node = node->next) {
		candidates[count] = (struct candidate){.node = node, .rank = count};
		count++;
	}
	return count;
}

/* Marks the first of each name. */
static void choose(struct candidate *candidates, struct candidate **sorted, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		sorted[i] = &candidates[i];
	}
	qsort(sorted, count, sizeof(*sorted), compare_names);
	for (size_t i = 0; i < count; i++) {
		sorted[i]->is_taken =
			i == 0 || strcmp(sorted[i - 1]->node->key, sorted[i]->node->key) != 0;
	}
}

static int take_members(struct smd_yaml_anchors *anchors, struct smd_node *object,
	const struct smd_node *merge, size_t members)
{
	size_t own = object->count;
	size_t count = own + members;
	struct candidate *candidates = calloc(count, sizeof(*candidates));
	struct candidate **sorted = calloc(count, sizeof(*sorted));
	int ret = candidates && sorted ? 0 : -ENOMEM;

	if (!ret) {
		count = add_members(object, candidates, 0);
		if (merge->type == SMD_NODE_OBJECT) {
			count = add_members(merge, candidates, count);
		} else {
			for (const struct smd_node *node = merge->first; node; node = node->next) {
				count = add_members(node, candidates, count);
			}
		}
		choose(candidates, sorted, count);
	}
	for (size_t i = own; i < count && !ret; i++) {
		struct smd_node *ignored = NULL;

		if (candidates[i].is_taken) {
			ret = copy_node(anchors, candidates[i].node, object,
				candidates[i].node->key, merge->key_at, smd_node_depth(object) + 2,
				&ignored);
		}
	}
	free(sorted);
	free(candidates);
	return ret;
}

int smd_yaml_merge(struct smd_yaml_anchors *anchors, struct smd_node *object)
{
	struct smd_node *merge = object->first;
	int64_t members;
	int ret;

	while (merge && strcmp(merge->key, MERGE) != 0) {
		merge = merge->next;
	}
	if (!merge) {
		return 0;
	}
	members = count_members(anchors, merge);
	if (members < 0) {
		return (int)members;
	}
	ret = take_members(anchors, object, merge, (size_t)members);
	smd_node_detach(merge);
	merge->next = anchors->kept;
	anchors->kept = merge;
	return ret;
}

void smd_yaml_anchors_clear(struct smd_yaml_anchors *anchors)
{
	while (anchors->kept) {
		struct smd_node *next = anchors->kept->next;

		smd_node_free(anchors->kept);
		anchors->kept = next;
	}
	for (size_t i = 0; i < anchors->count; i++) {
		free(anchors->list[i].name);
	}
	free(anchors->list);
}
