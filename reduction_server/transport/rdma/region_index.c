/* A treap of regions: by where they begin, and each with how far those below it reach. */
#include "reduction_server/transport/rdma/region_index.h"

#include <stdbool.h>
#include <stddef.h>

#include "reduction_server/base/random.h"

/* Those that begin at the same place are told apart by where they are themselves. */
static bool node_is_before(const struct smd_region_node *a, const struct smd_region_node *b)
{
	return a->begin != b->begin ? a->begin < b->begin : (uintptr_t)a < (uintptr_t)b;
}

static uintptr_t reach_of(const struct smd_region_node *node, unsigned access)
{
	return node ? node->reach[access] : 0;
}

static void node_measure(struct smd_region_node *node)
{
	for (unsigned access = 0; access < SMD_REGION_ACCESSES; access++) {
		uintptr_t left = reach_of(node->left, access);
		uintptr_t right = reach_of(node->right, access);
		uintptr_t own = node->access >= access ? node->end : 0;
		uintptr_t below = left > right ? left : right;

		node->reach[access] = own > below ? own : below;
	}
}

/* ---- adding and removing ---- */

/* Into those before the node, and the others. */
static void tree_split(struct smd_region_node *tree, const struct smd_region_node *at,
	struct smd_region_node **before, struct smd_region_node **after)
{
	if (!tree) {
		*before = NULL;
		*after = NULL;
	} else if (node_is_before(tree, at)) {
		tree_split(tree->right, at, &tree->right, after);
		node_measure(tree);
		*before = tree;
	} else {
		tree_split(tree->left, at, before, &tree->left);
		node_measure(tree);
		*after = tree;
	}
}

/* All of `before` are before all of `after`. */
static struct smd_region_node *tree_join(
	struct smd_region_node *before, struct smd_region_node *after)
{
	if (!before || !after) {
		return before ? before : after;
	}
	if (before->priority > after->priority) {
		before->right = tree_join(before->right, after);
		node_measure(before);
		return before;
	}
	after->left = tree_join(before, after->left);
	node_measure(after);
	return after;
}

void smd_region_index_add(struct smd_region_index *index, struct smd_region_node *node)
{
	struct smd_region_node *before;
	struct smd_region_node *after;

	node->left = NULL;
	node->right = NULL;
	node->priority = smd_random_next(&index->seed);
	node_measure(node);
	tree_split(index->root, node, &before, &after);
	index->root = tree_join(tree_join(before, node), after);
}

static struct smd_region_node *tree_without(
	struct smd_region_node *tree, const struct smd_region_node *node)
{
	if (tree == node) {
		return tree_join(tree->left, tree->right);
	}
	if (node_is_before(node, tree)) {
		tree->left = tree_without(tree->left, node);
	} else {
		tree->right = tree_without(tree->right, node);
	}
	node_measure(tree);
	return tree;
}

void smd_region_index_remove(struct smd_region_index *index, struct smd_region_node *node)
{
	index->root = tree_without(index->root, node);
}

/* ---- finding ---- */

/* One that begins before `before` and ends at `end` or later. */
static struct smd_region_node *tree_find(
	struct smd_region_node *tree, uintptr_t before, uintptr_t end, unsigned access)
{
	while (tree) {
		if (tree->begin >= before) {
			tree = tree->left;
		} else if (reach_of(tree->left, access) >= end) {
			tree = tree->left; /* all there begin before it, and one reaches so far */
		} else if (tree->access >= access && tree->end >= end) {
			break;
		} else {
			tree = tree->right;
		}
	}
	return tree;
}

struct smd_region_node *smd_region_index_find(
	const struct smd_region_index *index, uintptr_t begin, uintptr_t end, unsigned access)
{
	return tree_find(index->root, begin + 1, end, access);
}

struct smd_region_node *smd_region_index_overlapping(
	const struct smd_region_index *index, uintptr_t begin, uintptr_t end)
{
	return begin < end ? tree_find(index->root, end, begin + 1, 0) : NULL;
}
