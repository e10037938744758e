/* `summand custom-jobs export`: writes a job as a file that another system runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/cli/custom_jobs.h"
#include "orchestrator/cli/format.h"
#include "orchestrator/cli/loaded_job.h"
#include "orchestrator/cli/private_file.h"
#include "orchestrator/cli/verbs.h"
#include "orchestrator/export/export.h"
#include "orchestrator/job/secret.h"
#include "reduction_server/base/printable.h"

#define SERVER_IMAGE "summand-reduction-server:" SUMMAND_VERSION

struct request {
	const struct smd_export_target *target;
	enum smd_use use;
	const char *output; /* NULL: standard output */
	struct smd_export_options options;
};

static int set_target(void *target, const char *value, struct smd_error *error)
{
	struct request *request = target;

	request->target = smd_export_target_find(value);
	if (!request->target) {
		return smd_error_set(error, EINVAL, "must be slurm, jobset or compose");
	}
	request->use = request->target->runs_images ? SMD_USE_SHOW_IMAGES : SMD_USE_SHOW;
	return 0;
}

/* One line of the script, which cannot hold a second one. */
static int add_directive(void *target, const char *value, struct smd_error *error)
{
	struct smd_export_options *options = target;

	if (options->ndirectives == SMD_EXPORT_DIRECTIVES) {
		return smd_error_set(
			error, EINVAL, "must be given at most %d times", SMD_EXPORT_DIRECTIVES);
	}
	if (!strstr(value, "-") || strpbrk(value, "\n\r")) {
		return smd_error_set(error, EINVAL,
			"must be an option of sbatch such as --partition=gpu, or "
			"workerpool2:--partition=cpu");
	}
	options->directives[options->ndirectives++] = value;
	return 0;
}

static char *text_of(const struct smd_export *export)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int ret = out ? 0 : -ENOMEM;

	if (out && export->text) {
		fputs(export->text, out);
	} else if (out) {
		fputs(export->head, out);
		ret = smd_yaml_print(export->object, out);
	}
	if ((out && fclose(out)) || ret) {
		free(text);
		return NULL;
	}
	return text;
}

/* At once, so that errno is what has kept it from being written. */
static int write_text(const char *text, const char *path, int is_program)
{
	FILE *out = path ? smd_private_file_create(path, is_program) : stdout;
	int ret = !out || fputs(text, out) < 0 || fflush(out) ? -errno : 0;

	if (out && path && fclose(out) && !ret) {
		ret = -errno;
	}
	return ret;
}

static int write_export(const struct smd_export *export, const char *path)
{
	char *text = text_of(export);
	int ret = text ? write_text(text, path, export->text != NULL) : -ENOMEM;

	free(text);
	if (ret) {
		smd_print_line(stderr, "summand: %s: %s\n", path ? path : "standard output",
			strerror(-ret));
	}
	return ret;
}

static void print_remarks(const struct smd_export *export, const struct smd_job *job)
{
	size_t nsecrets = 0;
	json_t *masked = smd_secret_mask_json(job->spec, &nsecrets);

	json_decref(masked);
	for (size_t i = 0; i < export->nnotes; i++) {
		smd_print_line(stderr, "summand: warning: %s\n", export->notes[i]);
	}
	if (nsecrets > 0) {
		smd_print_line(stderr,
			"summand: warning: the file holds the values of the spec's secrets: %zu\n",
			nsecrets);
	}
}

static int run_export(const struct request *request, const struct smd_loaded_job *loaded)
{
	struct smd_error error = {""};
	struct smd_export export;
	int ret = smd_export_write(request->target, loaded->job, loaded->catalogue,
		&request->options, &export, &error);
	int exit_code = SMD_EXIT_OK;

	if (ret) {
		smd_print_line(stderr, "summand: %s: %s\n", loaded->source.name, error.text);
		exit_code = ret == -ENOTSUP ? SMD_EXIT_USAGE : SMD_EXIT_FAILED;
	} else {
		print_remarks(&export, loaded->job);
		exit_code = write_export(&export, request->output) ? SMD_EXIT_FAILED : SMD_EXIT_OK;
	}
	smd_export_close(&export);
	return exit_code;
}

int smd_custom_jobs_export(int argc, char **argv)
{
	struct request request = {.use = SMD_USE_SHOW, .options = {.server_image = SERVER_IMAGE}};
	const struct smd_option options[] = {
		SMD_OPTION_GROUP("Export"),
		{"to", "slurm|jobset|compose",
			"the system: a batch script, a JobSet of Kubernetes, a Compose file",
			set_target, &request},
		{"output", "FILE", "where it is written (default: standard output)",
			smd_option_set_path, &request.output},
		SMD_OPTION_GROUP("Slurm"),
		{"slurm-option", "OPTION",
			"one of sbatch's, such as --partition=gpu; workerpool2:--partition=cpu for "
			"one pool; may be repeated",
			add_directive, &request.options},
		SMD_OPTION_GROUP("Containers"),
		{"server-image", "IMAGE", "the reduction servers' image (default " SERVER_IMAGE ")",
			smd_option_set_path, &request.options.server_image},
		{"volume-claim", "NAME",
			"a JobSet's persistent volume claim for what the job writes",
			smd_option_set_path, &request.options.volume_claim},
		{"rdma-resource", "NAME",
			"a JobSet's resource of RDMA devices, such as rdma/hca, one for each "
			"replica",
			smd_option_set_path, &request.options.rdma_resource},
	};
	const struct smd_command command = {
		.synopsis = "summand custom-jobs export SPEC|FLAG... --to=TARGET [OPTION...]",
		.summary = "Writes a job as a file that another system runs.",
		.options = options,
		.noptions = sizeof(options) / sizeof(options[0]),
		.exits = SMD_EXITS,
	};
	struct smd_loaded_job loaded;
	int exit_code;

	if (smd_loaded_job_open(&command, &request.use, argc, argv, &loaded, &exit_code)) {
		return exit_code;
	}
	if (request.target) {
		exit_code = run_export(&request, &loaded);
	} else {
		smd_print_line(stderr, "summand: --to: must be given: slurm, jobset or compose\n");
		exit_code = SMD_EXIT_USAGE;
	}
	smd_loaded_job_close(&loaded);
	return exit_code;
}
