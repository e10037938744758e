/* The table of targets, and what they share. */
#include "orchestrator/export/export.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/export/target.h"
#include "orchestrator/job/secrets.h"
#include "reduction_server/base/printable.h"

#define NAME_MAX_LENGTH 30 /* "NAME-workerpool1-0-99999-abcde" is a label of DNS */

static const struct smd_export_target targets[] = {
	{"slurm", 0, smd_export_slurm},
	{"jobset", 1, smd_export_jobset},
	{"compose", 1, smd_export_compose},
};

const struct smd_export_target *smd_export_target_find(const char *name)
{
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
		if (strcmp(name, targets[i].name) == 0) {
			return &targets[i];
		}
	}
	return NULL;
}

int smd_export_note(struct smd_export *export, const char *format, ...)
{
	va_list args;
	char *text;
	int length;

	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0) {
		return -ENOMEM;
	}
	smd_printable(text); /* it is a line of the file */
	for (size_t i = 0; i < export->nnotes; i++) {
		if (strcmp(export->notes[i], text) == 0) {
			free(text);
			return 0;
		}
	}
	if (export->nnotes == SMD_EXPORT_NOTES_MAX) {
		free(text);
		return 0;
	}
	export->notes[export->nnotes++] = text;
	return 0;
}

int smd_export_note_omissions(
	struct smd_export *export, int (*place)(const struct smd_export *, struct smd_placement *))
{
	struct smd_contract *contract = NULL;
	struct smd_placement placement;
	char *const *warnings;
	int ret = place(export, &placement);
	size_t count;

	if (ret) {
		return ret;
	}
	ret = smd_contract_create(export->job, &placement, &contract);
	count = ret ? 0 : smd_contract_warnings(contract, &warnings);
	for (size_t i = 0; i < count && !ret; i++) {
		ret = smd_export_note(export, "%s", warnings[i]);
	}
	smd_contract_free(contract);
	smd_placement_free(&placement);
	return ret;
}

int smd_export_machine(
	struct smd_export *export, int pool, const char *what, struct smd_machine *out)
{
	const struct smd_job_pool *spec = &export->job->pools[pool];
	int count = spec->accelerators_are_built_in ? 0 : spec->accelerator_count;

	if (spec->machine_type && smd_catalogue_find(export->catalogue, spec->machine_type,
					  count ? spec->accelerator_type : NULL, count, out) == 0) {
		return 0;
	}
	smd_export_note(export, "workerpool%d: %s %s: %s left to you", pool,
		spec->machine_type ? spec->machine_type : "no machine type",
		spec->machine_type ? "is not in the catalogue" : "is given", what);
	return -ENOENT;
}

int smd_export_has_servers(const struct smd_job *job)
{
	return job->pools[2].replica_count > 0 && job->pools[2].role == SMD_ROLE_REDUCTION_SERVER;
}

const char *smd_export_image(const struct smd_export *export, int pool)
{
	const struct smd_job_pool *spec = &export->job->pools[pool];

	return spec->role == SMD_ROLE_REDUCTION_SERVER ? export->options->server_image
						       : spec->image_uri;
}

int smd_export_place(
	const struct smd_export *export, smd_export_endpoint *endpoint, struct smd_placement *out)
{
	struct smd_placement placement = {.master_port = 0};

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		int count = export->job->pools[pool].replica_count;

		if (count == 0) {
			continue;
		}
		placement.endpoints[pool] = calloc((size_t)count + 1, sizeof(char *));
		for (int i = 0; placement.endpoints[pool] && i < count; i++) {
			placement.endpoints[pool][i] = endpoint(export, pool, i);
			if (!placement.endpoints[pool][i]) {
				smd_placement_free(&placement);
				return -ENOMEM;
			}
		}
		if (!placement.endpoints[pool]) {
			smd_placement_free(&placement);
			return -ENOMEM;
		}
	}
	*out = placement;
	return 0;
}

static char *copy_or_null(const char *text, int *failed)
{
	char *copy = text ? strdup(text) : NULL;

	*failed |= text && !copy;
	return copy;
}

/* Any address: a host's own name is often one of loopback to itself. */
static char *any_address(const struct smd_export *export, int pool, int index)
{
	char *text;

	(void)export;
	(void)pool;
	(void)index;
	return asprintf(&text, "0.0.0.0:%d", SMD_EXPORT_PORT) < 0 ? NULL : text;
}

int smd_export_place_listening(const struct smd_export *export, const struct smd_placement *place,
	struct smd_placement *out)
{
	struct smd_placement placement;
	int failed = 0;
	int ret = smd_export_place(export, any_address, &placement);

	if (ret) {
		return ret;
	}
	for (int i = 0; place->endpoints[2] && place->endpoints[2][i] && !failed; i++) {
		char *endpoint;

		failed = asprintf(&endpoint, "0.0.0.0:%s",
				 strrchr(place->endpoints[2][i], ':') + 1) < 0;
		if (!failed) {
			free(placement.endpoints[2][i]);
			placement.endpoints[2][i] = endpoint;
		}
	}
	placement.master_port = place->master_port;
	placement.job_id = copy_or_null(place->job_id, &failed);
	placement.output_dir = copy_or_null(place->output_dir, &failed);
	placement.token_file = copy_or_null(place->token_file, &failed);
	if (failed) {
		smd_placement_free(&placement);
		return -ENOMEM;
	}
	*out = placement;
	return 0;
}

int smd_export_need_container(
	const struct smd_export *export, const char *target, struct smd_error *error)
{
	const struct smd_job *job = export->job;
	int processes = smd_job_processes(job, 0);

	if (processes == 1 && !job->code_dir) {
		return 0;
	}
	if (processes == 1) {
		return smd_error_set(error, ENOTSUP,
			"code: must be in the image for %s, got the folder %s", target,
			job->code_dir);
	}
	return smd_error_set(error, ENOTSUP,
		"summand-processes-per-replica: must be 1 in %s, where a container runs one "
		"command, "
		"got %d: let a launcher as torchrun start them, with summand-launch: node",
		target, processes);
}

void smd_export_print_notes(const struct smd_export *export, FILE *out)
{
	for (size_t i = 0; i < export->nnotes; i++) {
		fprintf(out, "%s%s\n", i ? "#   " : "#\n# Left to you:\n#   ", export->notes[i]);
	}
}

/* The job's name as a label of DNS, never empty. */
static char *dns_name(const struct smd_job *job)
{
	char *name = malloc(NAME_MAX_LENGTH + 1);
	size_t n = 0;

	if (!name) {
		return NULL;
	}
	for (const char *at = job->display_name; *at && n < NAME_MAX_LENGTH; at++) {
		char c = (char)tolower((unsigned char)*at);

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9' && n > 0)) {
			name[n++] = c;
		} else if (n > 0 && name[n - 1] != '-') {
			name[n++] = '-';
		}
	}
	while (n > 0 && name[n - 1] == '-') {
		n--;
	}
	name[n] = '\0';
	if (n == 0) {
		snprintf(name, NAME_MAX_LENGTH + 1, "job-%s", job->id);
	}
	return name;
}

/* What needs the runner, whatever the target. */
static int check_job(const struct smd_job *job, struct smd_error *error)
{
	if (job->study) {
		return smd_error_set(error, ENOTSUP,
			"a tuning job: must be a training job, got one of %d trials, which "
			"`summand "
			"hp-tuning-jobs local-run` runs; export the job of one trial",
			job->max_trial_count);
	}
	if (job->nrequirements || job->nextra_packages) {
		return smd_error_set(error, ENOTSUP,
			"requirements, extra packages: must be in the image or on the hosts, got "
			"%zu "
			"that local-run would install",
			job->nrequirements + job->nextra_packages);
	}
	if (job->success_policy == SMD_SUCCESS_ANY) {
		return smd_error_set(error, ENOTSUP,
			"summand-success-policy: must be chief or all-workers, got any");
	}
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		if (job->pools[pool].replica_count && job->pools[pool].npackage_uris) {
			return smd_error_set(error, ENOTSUP,
				"workerpool%d: packageUris: must be in the image or on the hosts, "
				"got "
				"%zu that local-run would install",
				pool, job->pools[pool].npackage_uris);
		}
		if (job->pools[pool].replica_count && smd_job_pool_has_tpus(&job->pools[pool])) {
			return smd_error_set(error, ENOTSUP,
				"workerpool%d: acceleratorType: must be of GPUs, got %s", pool,
				job->pools[pool].accelerator_type);
		}
	}
	return 0;
}

/* A target without images runs commands. */
static int check_commands(
	const struct smd_export_target *target, const struct smd_job *job, struct smd_error *error)
{
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !target->runs_images; pool++) {
		const struct smd_job_pool *spec = &job->pools[pool];

		if (spec->replica_count && !spec->ncommand &&
			spec->role != SMD_ROLE_REDUCTION_SERVER) {
			return smd_error_set(error, ENOTSUP,
				"workerpool%d: containerSpec.command: must be given for %s, where "
				"commands are run on hosts and not in %s",
				pool, target->name, spec->image_uri);
		}
	}
	return 0;
}

/* What local-run and create do by themselves, and no file does. */
static int note_reducers(const struct smd_export_target *target, struct smd_export *export)
{
	const struct smd_job *job = export->job;
	int workers = job->pools[0].replica_count + job->pools[1].replica_count;
	int servers = job->pools[2].replica_count;

	if (!smd_job_has_servers(job) || job->hybrid == SMD_HYBRID_OFF || servers >= workers) {
		return 0;
	}
	if (servers == 0) {
		return smd_export_note(export,
			"reduction servers: none, and no reducers on the workers' hosts in their "
			"place: local-run and create start these, %s does not; programs that need "
			"reduction servers will find none",
			target->name);
	}
	return smd_export_note(export,
		"reduction servers: %d for %d workers: local-run and create also start reducers on "
		"the workers' hosts, %s does not; with too few servers alone an all-reduce is "
		"slower than a ring, and summand custom-jobs plan says how many are needed",
		servers, workers, target->name);
}

int smd_export_write(const struct smd_export_target *target, const struct smd_job *job,
	const struct smd_catalogue *catalogue, const struct smd_export_options *options,
	struct smd_export *out, struct smd_error *error)
{
	int ret;

	*out = (struct smd_export){.job = job, .catalogue = catalogue, .options = options};
	out->name = dns_name(job);
	ret = out->name ? check_job(job, error) : -ENOMEM;
	ret = ret ? ret : check_commands(target, job, error);
	if (!ret && job->launch == SMD_LAUNCH_MPIRUN) {
		ret = smd_error_set(error, ENOTSUP,
			"summand-launch: mpirun: must be run by local-run or create, on a Slurm "
			"cluster with --engine=slurm, whose token lets the chief's mpirun reach "
			"the other replicas; %s has none. One replica whose command begins with "
			"mpirun needs none; and summand-launch: process is for programs that "
			"never call MPI_Init, because one that does is rank 0 of 1, and succeeds",
			target->name);
	}
	if (!ret && job->hybrid == SMD_HYBRID_ON) {
		ret = smd_error_set(error, ENOTSUP,
			"summand-hybrid: on: must be run by local-run or create, which start reducers "
			"on the workers' hosts; for %s have reduction servers in worker pool 2",
			target->name);
	}
	if (!ret && smd_secrets_are_needed(job)) {
		ret = smd_error_set(error, ENOTSUP,
			"$(secret:NAME): must be run by local-run or create, or by a service, which "
			"have the secrets; %s has its own",
			target->name);
	}
	ret = ret ? ret : note_reducers(target, out);
	ret = ret ? ret : target->write(out, error);
	if (ret) {
		smd_error_set(error, -ret, "%s", strerror(-ret));
	}
	return ret;
}

void smd_export_close(struct smd_export *export)
{
	for (size_t i = 0; i < export->nnotes; i++) {
		free(export->notes[i]);
	}
	json_decref(export->object);
	free(export->name);
	free(export->text);
	free(export->head);
	*export = (struct smd_export){NULL};
}
