/* Changes the tasks of all worker pools alike: their variables, and their lists of words. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/job_edit.h"

static void put_variable_in(struct smd_job_edit *edit, struct smd_node *task, int is_container,
	const void *context, struct smd_source_position at)
{
	const char *const *variable = context;
	struct smd_node *env = (struct smd_node *)smd_node_member(task, "env");
	struct smd_node *node;

	(void)is_container;
	env = env ? env : smd_edit_put(edit, task, "env", SMD_NODE_ARRAY, at);
	if (!env || env->type != SMD_NODE_ARRAY) {
		return;
	}
	for (node = env->first; node; node = node->next) {
		const struct smd_node *name = smd_node_member(node, "name");

		if (name && name->type == SMD_NODE_STRING &&
			strcmp(name->string, variable[0]) == 0) {
			smd_node_remove(node);
			break;
		}
	}
	node = smd_node_create(env, NULL, SMD_NODE_OBJECT, at);
	if (!node) {
		edit->ret = -ENOMEM;
		return;
	}
	smd_edit_put_string(edit, node, "name", variable[0], at);
	smd_edit_put_string(edit, node, "value", variable[1], at);
}

void smd_edit_put_variable(struct smd_job_edit *edit, const char *key, const char *value,
	struct smd_source_position at)
{
	const char *const variable[] = {key, value};

	smd_edit_each_task(edit, put_variable_in, variable, at);
}

/* A list for every task: what and in which of its fields. */
struct task_list {
	const char *field;
	enum smd_task_kind kind; /* which tasks have it */
	const struct smd_flag_items *items;
};

static void put_list_in(struct smd_job_edit *edit, struct smd_node *task, int is_container,
	const void *context, struct smd_source_position at)
{
	const struct task_list *list = context;

	enum smd_task_kind kind = is_container ? SMD_TASK_CONTAINER : SMD_TASK_PACKAGE;

	if (list->kind == SMD_TASK_ANY || list->kind == kind) {
		smd_edit_put_strings(edit, task, list->field, list->items, at);
	}
}

void smd_edit_put_list(struct smd_job_edit *edit, const char *field, enum smd_task_kind kind,
	const struct smd_flag_value *values, size_t count)
{
	struct smd_flag_items all = {0};
	const struct task_list list = {.field = field, .kind = kind, .items = &all};
	struct smd_flag_items *parts = calloc(count, sizeof(*parts));
	size_t total = 0;

	for (size_t i = 0; parts && i < count; i++) {
		int ret = smd_flag_list(values[i].value, &parts[i], NULL);

		edit->ret = edit->ret ? edit->ret : ret;
		total += parts[i].count;
	}
	all.values = calloc(total + 1, sizeof(*all.values));
	if (!parts || !all.values) {
		edit->ret = -ENOMEM;
	}
	for (size_t i = 0; !edit->ret && i < count; i++) {
		for (size_t n = 0; n < parts[i].count; n++) {
			all.values[all.count++] = parts[i].values[n];
		}
	}
	smd_edit_each_task(edit, put_list_in, &list, values[0].at);
	for (size_t i = 0; parts && i < count; i++) {
		smd_flag_items_free(&parts[i]);
	}
	free(parts);
	free(all.values);
}
