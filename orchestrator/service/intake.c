/* Reads the job that a request describes. */
#include "orchestrator/service/intake.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/enums.h"
#include "orchestrator/intake/machines.h"
#include "orchestrator/intake/overlong.h"
#include "orchestrator/job/secret.h"
#include "orchestrator/job/secrets.h"
#include "orchestrator/service/resource.h"
#include "orchestrator/tuning/tuning.h"
#include "reduction_server/base/log.h"

#define UNKNOWN_FIELD "unknown field"
#define PATH_SIZE     1024
#define GIGABYTE      (1u << 30)
#define OWN_FOLDER    "--secrets: "

/* The field of a request that is the job, as field violations name it. */
static const char *const roots[] = {
	[SMD_STORED_CUSTOM_JOB] = "custom_job",
	[SMD_STORED_TUNING_JOB] = "hyperparameter_tuning_job",
};

/* "/jobSpec/workerPoolSpecs/0" is custom_job.job_spec.worker_pool_specs[0]. */
static void write_path(const char *root, const char *pointer, size_t length, char path[PATH_SIZE])
{
	size_t used = (size_t)snprintf(path, PATH_SIZE, "%s", root);
	size_t i = 0;

	while (i < length && used < PATH_SIZE - 8) {
		size_t digits = strspn(pointer + i + 1, "0123456789");

		if (pointer[i] == '/' && digits > 0 &&
			(i + 1 + digits >= length || pointer[i + 1 + digits] == '/')) {
			used += (size_t)snprintf(path + used, PATH_SIZE - used, "[%.*s]",
				(int)(digits < 6 ? digits : 6), pointer + i + 1);
			i += 1 + digits;
		} else if (pointer[i] == '/') {
			path[used++] = '.';
			i++;
		} else if (isupper((unsigned char)pointer[i])) {
			path[used++] = '_';
			path[used++] = (char)tolower((unsigned char)pointer[i++]);
		} else {
			path[used++] = pointer[i++];
		}
	}
	path[used] = '\0';
}

/* Google's words for a name that a message does not have: of its object, and with the name. */
static void violate_name(
	const char *root, const struct smd_diagnostic *diagnostic, struct smd_answer *answer)
{
	size_t name = diagnostic->pointer_length;
	char path[PATH_SIZE];

	while (name > 0 && diagnostic->text[name - 1] != '/') {
		name--;
	}
	write_path(root, diagnostic->text, name ? name - 1 : 0, path);
	smd_answer_violate(answer, path,
		"Invalid JSON payload received. Unknown name \"%.*s\" at '%s': Cannot find field.",
		(int)(diagnostic->pointer_length - name), diagnostic->text + name, path);
}

static void violate(
	const char *root, const struct smd_diagnostic *diagnostic, struct smd_answer *answer)
{
	size_t length = diagnostic->pointer_length;
	const char *sentence = diagnostic->text + length + (length ? strlen(": ") : 0);
	char path[PATH_SIZE];

	if (strncmp(sentence, UNKNOWN_FIELD, strlen(UNKNOWN_FIELD)) == 0) {
		violate_name(root, diagnostic, answer);
		return;
	}
	write_path(root, diagnostic->text, length, path);
	smd_answer_violate(answer, path, "Invalid value at '%s': %s", path, sentence);
}

static void refuse(const struct smd_diagnostics *diagnostics, const char *root, int is_text,
	struct smd_answer *answer)
{
	for (size_t i = 0; i < diagnostics->count; i++) {
		const struct smd_diagnostic *diagnostic = &diagnostics->list[i];

		if (diagnostic->severity != SMD_SEVERITY_ERROR) {
			continue;
		}
		if (is_text) {
			smd_answer_fail(answer, SMD_RPC_INVALID_ARGUMENT,
				"Invalid JSON payload received. %d:%d: %s", diagnostic->at.line,
				diagnostic->at.column, diagnostic->text);
		} else {
			violate(root, diagnostic, answer);
		}
	}
}

/* ---- commands that stand in for images ---- */

int smd_intake_check_images(const json_t *images, struct smd_error *error)
{
	const char *image;
	json_t *words;
	json_t *word;
	size_t i;

	if (!json_is_object(images)) {
		return smd_error_set(error, EINVAL, "images must be an object of commands");
	}
	json_object_foreach ((json_t *)images, image, words) {
		if (json_array_size(words) == 0) {
			return smd_error_set(error, EINVAL,
				"images: %.128s must have a command, a list of words", image);
		}
		json_array_foreach (words, i, word) {
			if (!json_is_string(word)) {
				return smd_error_set(error, EINVAL,
					"images: %.128s: the words of a command must be strings",
					image);
			}
		}
	}
	return 0;
}

static int add_command(struct smd_node *container, const json_t *words)
{
	struct smd_node *list =
		smd_node_create(container, "command", SMD_NODE_ARRAY, container->at);
	json_t *word;
	size_t i;

	json_array_foreach (words, i, word) {
		if (!list || !smd_node_create_string(
				     list, NULL, json_string_value(word), container->at)) {
			return -ENOMEM;
		}
	}
	return list ? 0 : -ENOMEM;
}

/* A container without a command of its own is run by the one that is given for its image. */
static int stand_in(const struct smd_node *document, const json_t *images)
{
	const struct smd_node *pools = smd_machines_pools(document);
	int ret = 0;

	for (const struct smd_node *pool = pools ? pools->first : NULL; pool && !ret;
		pool = pool->next) {
		const struct smd_node *container = smd_node_member(pool, "containerSpec");
		const struct smd_node *image =
			container ? smd_node_member(container, "imageUri") : NULL;
		const json_t *words = image && image->type == SMD_NODE_STRING
					      ? json_object_get(images, image->string)
					      : NULL;

		if (words && !smd_node_member(container, "command")) {
			ret = add_command((struct smd_node *)container, words);
		}
	}
	return ret;
}

/* ---- a job ---- */

/* What its machine types have; of one that is not known, a processor for each replica. */
static struct smd_demand demand_of(const struct smd_catalogue *catalogue, const struct smd_job *job)
{
	struct smd_demand demand = {.cpus = 0};

	for (int i = 0; i < SMD_JOB_POOLS_MAX; i++) {
		const struct smd_job_pool *pool = &job->pools[i];
		struct smd_machine machine = {.vcpu = 1};

		if (pool->replica_count == 0) {
			continue;
		}
		if (pool->machine_type) {
			smd_catalogue_find(catalogue, pool->machine_type, NULL, 0, &machine);
		}
		demand.cpus += (int64_t)machine.vcpu * pool->replica_count;
		demand.memory_bytes +=
			(int64_t)(machine.memory_gb * GIGABYTE) * pool->replica_count;
		demand.gpus += smd_job_pool_has_tpus(pool)
				       ? 0
				       : (int64_t)pool->accelerator_count * pool->replica_count;
	}
	return demand;
}

/* A tuning job runs some trials at once, and all of them in as many rounds as that takes. */
static void multiply(const struct smd_job *job, struct smd_intake *out)
{
	int64_t parallel = job->parallel_trial_count > 0 ? job->parallel_trial_count : 1;

	out->demand.cpus *= parallel;
	out->demand.memory_bytes *= parallel;
	out->demand.gpus *= parallel;
	out->timeout_s *= (job->max_trial_count + parallel - 1) / parallel;
}

/* The resource without what only the service writes. */
static json_t *make_resource(enum smd_stored_kind kind, const struct smd_node *document)
{
	static const char *const outputs[] = {"name", "state", "createTime", "startTime", "endTime",
		"updateTime", "error", "trials", "webAccessUris", "satisfiesPzs", "satisfiesPzi"};
	json_t *plain = smd_node_to_json(document);
	json_t *masked = NULL;

	if (plain && !smd_message_respell(smd_resource_frontend(kind)->message, plain)) {
		for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
			json_object_del(plain, outputs[i]);
		}
		masked = smd_secret_mask_json(plain, NULL);
	}
	json_decref(plain);
	return masked;
}

static int check(const struct smd_intake_rules *rules, struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics)
{
	int ret;

	smd_machines_check(rules->catalogue, job, document, diagnostics);
	ret = smd_catalogue_complete(rules->catalogue, job);
	ret = ret ? ret : smd_overlong_check(job, document, diagnostics);
	smd_diagnostics_turn(diagnostics, SMD_SEVERITY_CONTAINER_ONLY,
		rules->runs_images ? SMD_SEVERITY_NOTE : SMD_SEVERITY_ERROR);
	smd_diagnostics_turn(diagnostics, SMD_SEVERITY_NOT_RUN, SMD_SEVERITY_ERROR);
	return ret ? ret : diagnostics->found[SMD_SEVERITY_ERROR] ? -EINVAL : 0;
}

/* Whether what the job refers to is there. Of its own folder the service tells nobody but its log. */
static int check_secrets(const struct smd_intake_rules *rules, const struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics)
{
	struct smd_error error = {""};
	struct smd_secrets secrets;
	int ret = smd_secrets_read(rules->secrets_folder, job, &secrets, &error);
	int is_own = ret && strncmp(error.text, OWN_FOLDER, strlen(OWN_FOLDER)) == 0;

	smd_secrets_clear(&secrets);
	if (is_own) {
		smd_log(SMD_LOG_WARN, "service", "%s", error.text);
	}
	if (ret) {
		smd_error_at_value(diagnostics, document, "%s",
			is_own ? "a secret cannot be read: the service's log says why"
			       : error.text);
	}
	return ret ? -EINVAL : 0;
}

/* Proto's JSON lets names be in snake_case, so nobody is to be told of it: the runner has them as the
 * resource does. */
static int fill(const struct smd_intake_rules *rules, enum smd_stored_kind kind,
	const struct smd_job *job, const struct smd_node *document, struct smd_intake *out)
{
	json_t *spec = smd_node_to_json(document);
	int ret = smd_message_respell(smd_resource_frontend(kind)->message, spec);

	out->spec = spec && !ret ? json_dumps(spec, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
	json_decref(spec);
	out->display_name = strdup(job->display_name);
	out->demand = demand_of(rules->catalogue, job);
	out->priority = job->priority;
	out->preemption = (enum smd_preemption)job->preemption;
	out->timeout_s = job->timeout_s;
	out->max_wait_s = job->max_wait_s;
	if (job->max_trial_count > 0) {
		multiply(job, out);
	}
	return out->spec && out->display_name && out->resource ? 0 : -ENOMEM;
}

/* Whether there are trials that can be compared. */
static int check_study(enum smd_stored_kind kind, const struct smd_job *job,
	const struct smd_node *document, struct smd_diagnostics *diagnostics)
{
	const struct smd_node *study = smd_node_member(document, "studySpec");
	struct smd_error error = {""};

	if (kind == SMD_STORED_TUNING_JOB && smd_tuning_check_study(job, &error)) {
		smd_error_at_value(diagnostics, study ? study : document, "%s", error.text);
		return -EINVAL;
	}
	return 0;
}

static int decode(const struct smd_intake_rules *rules, enum smd_stored_kind kind,
	struct smd_node *document, struct smd_diagnostics *diagnostics, struct smd_intake *out)
{
	struct smd_job *job = NULL;
	int ret = smd_enums_name(smd_resource_frontend(kind)->message, document);

	if (!ret) {
		out->resource = make_resource(kind, document);
		ret = out->resource ? 0 : -ENOMEM;
	}
	ret = ret || !rules->images ? ret : stand_in(document, rules->images);
	ret = ret ? ret : smd_frontend_decode(document, diagnostics, &job);
	if (!ret) {
		ret = check(rules, job, document, diagnostics);
		ret = ret ? ret : check_secrets(rules, job, document, diagnostics);
		ret = ret ? ret : check_study(kind, job, document, diagnostics);
		ret = ret ? ret : fill(rules, kind, job, document, out);
		smd_job_free(job);
	}
	return ret;
}

static void read_document(const struct smd_intake_rules *rules, enum smd_stored_kind kind,
	struct smd_node *document, struct smd_diagnostics *diagnostics, struct smd_intake *out,
	struct smd_answer *answer)
{
	const char *root = roots[kind];
	int ret;

	if (document->type != SMD_NODE_OBJECT ||
		!smd_resource_frontend(kind)->recognises(document)) {
		smd_answer_violate(answer, root, "Invalid value at '%s': must be a %s", root,
			smd_stored_kind_noun(kind));
		return;
	}
	ret = decode(rules, kind, document, diagnostics, out);
	if (ret == -EINVAL) {
		refuse(diagnostics, root, 0, answer);
	}
	if (ret) { /* unless it has been told */
		smd_answer_fail(answer, SMD_RPC_INTERNAL, "%s", strerror(-ret));
	}
}

int smd_intake_read(const struct smd_intake_rules *rules, enum smd_stored_kind kind,
	const char *body, size_t length, struct smd_intake *out, struct smd_answer *answer)
{
	struct smd_diagnostics *diagnostics = calloc(1, sizeof(*diagnostics));
	struct smd_node *document;

	*out = (struct smd_intake){.spec = NULL};
	if (!diagnostics) {
		smd_answer_fail(answer, SMD_RPC_INTERNAL, "out of memory");
		return -ENOMEM;
	}
	if (smd_document_parse_json(body, length, diagnostics, &document)) {
		refuse(diagnostics, roots[kind], 1, answer);
		smd_answer_fail(answer, SMD_RPC_INTERNAL, "out of memory");
	} else {
		read_document(rules, kind, document, diagnostics, out, answer);
		smd_node_free(document);
	}
	smd_diagnostics_clear(diagnostics);
	free(diagnostics);
	if (answer->status) {
		smd_intake_clear(out);
	}
	return answer->status ? -EINVAL : 0;
}

void smd_intake_clear(struct smd_intake *intake)
{
	json_decref(intake->resource);
	free(intake->spec);
	free(intake->display_name);
	*intake = (struct smd_intake){.spec = NULL};
}
