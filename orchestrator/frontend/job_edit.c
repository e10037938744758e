/* Changes the document of a job. */
#include "orchestrator/frontend/job_edit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/frontend/rules.h"
#include "orchestrator/frontend/server_command.h"

#define REASON_MAX 1200

void smd_job_edit_free(struct smd_job_edit *edit)
{
	free(edit->code_dir);
	free(edit->run_name);
	smd_flag_items_free(&edit->requirements);
	smd_flag_items_free(&edit->extra_packages);
}

static struct smd_node *member(struct smd_node *parent, const char *name)
{
	return (struct smd_node *)smd_node_member(parent, name);
}

struct smd_node *smd_edit_put(struct smd_job_edit *edit, struct smd_node *parent, const char *name,
	enum smd_node_type type, struct smd_source_position at)
{
	struct smd_node *node;

	if (!parent) {
		return NULL;
	}
	node = member(parent, name);
	if (node) {
		smd_node_reset(node, type, at);
		return node;
	}
	node = smd_node_create(parent, name, type, at);
	if (!node) {
		edit->ret = -ENOMEM;
	}
	return node;
}

struct smd_node *smd_edit_object(struct smd_job_edit *edit, struct smd_node *parent,
	const char *name, struct smd_source_position at)
{
	struct smd_node *node = parent ? member(parent, name) : NULL;

	if (!node) {
		return smd_edit_put(edit, parent, name, SMD_NODE_OBJECT, at);
	}
	return node->type == SMD_NODE_OBJECT ? node : NULL;
}

void smd_edit_put_string(struct smd_job_edit *edit, struct smd_node *parent, const char *name,
	const char *text, struct smd_source_position at)
{
	struct smd_node *node = smd_edit_put(edit, parent, name, SMD_NODE_STRING, at);

	if (node) {
		node->string = strdup(text);
		edit->ret = node->string ? edit->ret : -ENOMEM;
	}
}

void smd_edit_put_strings(struct smd_job_edit *edit, struct smd_node *parent, const char *name,
	const struct smd_flag_items *items, struct smd_source_position at)
{
	struct smd_node *list = smd_edit_put(edit, parent, name, SMD_NODE_ARRAY, at);

	for (size_t i = 0; list && i < items->count; i++) {
		if (!smd_node_create_string(list, NULL, items->values[i], at)) {
			edit->ret = -ENOMEM;
		}
	}
}

void smd_edit_refuse(
	struct smd_job_edit *edit, struct smd_source_position at, const char *format, ...)
{
	char reason[REASON_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	smd_error_in_text(edit->diagnostics, at, "%s", reason);
}

static int is_server(const struct smd_node *container)
{
	const struct smd_node *image = smd_node_member(container, "imageUri");

	return (image && image->type == SMD_NODE_STRING &&
		       smd_image_is_reduction_server(image->string)) ||
	       smd_server_command_is_of(container);
}

void smd_edit_each_task(struct smd_job_edit *edit, smd_edit_task *change, const void *context,
	struct smd_source_position at)
{
	struct smd_node *pools = member(edit->spec, "workerPoolSpecs");

	if (!pools || pools->type != SMD_NODE_ARRAY) {
		return;
	}
	for (struct smd_node *pool = pools->first; pool; pool = pool->next) {
		struct smd_node *container = member(pool, "containerSpec");
		struct smd_node *package = member(pool, "pythonPackageSpec");

		if (container && container->type == SMD_NODE_OBJECT && !is_server(container)) {
			change(edit, container, 1, context, at);
		}
		if (package && package->type == SMD_NODE_OBJECT) {
			change(edit, package, 0, context, at);
		}
	}
}

/* The items as strings of the job. */
static int copy_strings(const struct smd_flag_items *items, char ***strings, size_t *count)
{
	if (items->count == 0) {
		return 0;
	}
	*strings = calloc(items->count, sizeof(**strings));
	if (!*strings) {
		return -ENOMEM;
	}
	*count = items->count;
	for (size_t i = 0; i < items->count; i++) {
		(*strings)[i] = strdup(items->values[i]);
		if (!(*strings)[i]) {
			return -ENOMEM;
		}
	}
	return 0;
}

int smd_job_edit_finish(struct smd_job_edit *edit, struct smd_job *job)
{
	int ret = copy_strings(&edit->requirements, &job->requirements, &job->nrequirements);

	job->code_dir = edit->code_dir;
	edit->code_dir = NULL;
	job->run_name = edit->run_name;
	edit->run_name = NULL;
	job->has_shell_arguments = edit->has_shell_arguments;
	return ret ? ret
		   : copy_strings(
			     &edit->extra_packages, &job->extra_packages, &job->nextra_packages);
}

void smd_edit_put_label(struct smd_job_edit *edit, const char *key, const char *value,
	struct smd_source_position at)
{
	struct smd_node *labels = smd_edit_object(edit, edit->job, "labels", at);

	smd_edit_put_string(edit, labels, key, value, at);
}
