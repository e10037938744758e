/*
 * A JobSet of Kubernetes: a replicated job for each worker pool, an indexed pod of it for each
 * replica, which the others reach by the name that the JobSet's headless service gives it.
 *
 * All pods of a pool have one template. A replica's number is known there as SUMMAND_INDEX, which
 * values refer to; what has to be computed from it (RANK is index + 1) a shell computes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/export/container.h"
#include "reduction_server/base/printable.h"

#define TOKEN_FOLDER "/run/summand"
#define INDEX        "SUMMAND_INDEX"
#define ATTEMPT      "SUMMAND_ATTEMPT" /* a pod on a node that is gone may run on */
#define ATTEMPT_PATH "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
#define INDEX_PATH   "metadata.annotations['batch.kubernetes.io/job-completion-index']"
/* Of a machine: Kubernetes keeps some of it, and two replicas do not fit. */
#define SHARE     4 / 5
#define SIGKILLED 137
#define SIGTERMED 143

/* <JobSet>-<replicated job>-<job>-<pod>.<subdomain>. */
static char *endpoint_of(const struct smd_export *export, int pool, int index)
{
	char *text;

	return asprintf(&text, "%s-workerpool%d-0-%d.%s:%d", export->name, pool, index,
		       export->name, SMD_EXPORT_PORT) < 0
		       ? NULL
		       : text;
}

static int place(const struct smd_export *export, struct smd_placement *out)
{
	int has_output = export->job->output_uri && export->options->volume_claim;
	int has_servers = smd_export_has_servers(export->job);
	int ret = smd_export_place(export, endpoint_of, out);

	if (ret) {
		return ret;
	}
	out->output_dir = has_output ? strdup(SMD_EXPORT_OUTPUT_DIR) : NULL;
	out->token_file = has_servers ? strdup(TOKEN_FOLDER "/token") : NULL;
	if ((has_output && !out->output_dir) || (has_servers && !out->token_file)) {
		smd_placement_free(out);
		return -ENOMEM;
	}
	return 0;
}

/* Whether values can refer to it: the replica's number itself. */
static int is_index(const struct smd_text_part *part)
{
	return part->replica_factor == 1 && part->constant == 0;
}

static int needs_shell(const struct smd_text *text)
{
	for (size_t i = 0; i < text->count; i++) {
		if (!text->parts[i].literal && !is_index(&text->parts[i])) {
			return 1;
		}
	}
	return 0;
}

static int pool_needs_shell(const struct smd_pool_texts *texts)
{
	int needs = 0;

	for (size_t i = 0; i < texts->nvariables; i++) {
		needs |= needs_shell(&texts->variables[i].text);
	}
	for (size_t i = 0; i < texts->nwords; i++) {
		needs |= needs_shell(&texts->words[i]);
	}
	return needs;
}

/* The text as Kubernetes expands it. */
static json_t *value_of(const struct smd_text *text)
{
	char *value = NULL;
	size_t length;
	FILE *out = open_memstream(&value, &length);
	json_t *string;
	int failed = !out;

	for (size_t i = 0; i < text->count && !failed; i++) {
		char *literal = text->parts[i].literal ? smd_export_escape(text->parts[i].literal)
						       : strdup("$(" INDEX ")");

		failed = !literal;
		fputs(literal ? literal : "", out);
		free(literal);
	}
	failed |= out && fclose(out);
	string = failed ? NULL : json_string(value);
	free(value);
	return string;
}

/* The text as a word of a shell. -ENOTSUP for what sh has no word for. */
static int print_word(const struct smd_text *text, FILE *out)
{
	size_t length;

	if (text->count == 0) {
		fputs("''", out);
	}
	for (size_t i = 0; i < text->count; i++) {
		const struct smd_text_part *part = &text->parts[i];

		if (part->literal && smd_unprintable(part->literal, &length)) {
			return -ENOTSUP;
		}
		if (part->literal) {
			smd_shell_quote(part->literal, out);
		} else {
			fputs("\"$((", out);
			if (part->replica_factor != 1) {
				fprintf(out, "%" PRId64 " * ", part->replica_factor);
			}
			fprintf(out, INDEX " + %" PRId64 "))\"", part->constant);
		}
	}
	return 0;
}

/* Exports what has to be computed, and becomes the command. */
static int print_script(const struct smd_pool_texts *texts, FILE *out)
{
	int ret = 0;

	for (size_t i = 0; i < texts->nvariables && !ret; i++) {
		if (needs_shell(&texts->variables[i].text)) {
			fprintf(out, "export %s=", texts->variables[i].name);
			ret = print_word(&texts->variables[i].text, out);
			fputc('\n', out);
		}
	}
	fputs("exec", out);
	for (size_t i = 0; i < texts->nwords && !ret; i++) {
		fputc(' ', out);
		ret = print_word(&texts->words[i], out);
	}
	fputc('\n', out);
	return ret;
}

static int add_script(const struct smd_export *export, int pool, const struct smd_pool_texts *texts,
	json_t *container, struct smd_error *error)
{
	char *script = NULL;
	size_t length;
	FILE *out;
	int failed = 0;
	int ret;

	if (export->job->pools[pool].ncommand == 0) {
		return smd_error_set(error, ENOTSUP,
			"workerpool%d: containerSpec.command: must be given for a JobSet, where "
			"RANK "
			"and the like are computed before it is run",
			pool);
	}
	out = open_memstream(&script, &length);
	ret = out ? print_script(texts, out) : -ENOMEM;
	ret = out && fclose(out) && !ret ? -ENOMEM : ret;
	if (ret == -ENOTSUP) {
		ret = smd_error_set(error, ENOTSUP,
			"workerpool%d: env, command, args: must have no control characters for a "
			"JobSet",
			pool);
	}
	if (!ret) {
		json_t *text = smd_export_string(script);

		smd_export_put(container, "command",
			text ? json_pack("[s,s,o]", "/bin/sh", "-c", text) : NULL, &failed);
		ret = failed ? -ENOMEM : 0;
	}
	free(script);
	return ret;
}

static json_t *words_of(const struct smd_pool_texts *texts, size_t begin, size_t end)
{
	json_t *list = json_array();
	int failed = !list;

	for (size_t i = begin; i < end && !failed; i++) {
		smd_export_append(list, value_of(&texts->words[i]), &failed);
	}
	if (failed) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static int add_words(const struct smd_export *export, int pool, const struct smd_pool_texts *texts,
	json_t *container)
{
	const struct smd_job_pool *spec = &export->job->pools[pool];
	size_t ncommand = spec->role == SMD_ROLE_REDUCTION_SERVER ? texts->nwords : spec->ncommand;
	int failed = 0;

	if (ncommand > 0) {
		smd_export_put(container, "command", words_of(texts, 0, ncommand), &failed);
	}
	if (texts->nwords > ncommand) {
		smd_export_put(
			container, "args", words_of(texts, ncommand, texts->nwords), &failed);
	}
	return failed ? -ENOMEM : 0;
}

/* The pod's own, which a later value may refer to. */
static json_t *field_of(const char *name, const char *path)
{
	return json_pack(
		"{s:s, s:{s:{s:s}}}", "name", name, "valueFrom", "fieldRef", "fieldPath", path);
}

/* The replica's number first, as later values may refer only to earlier ones. */
static json_t *environment_of(const struct smd_pool_texts *texts)
{
	json_t *list = json_array();
	int failed = !list;

	smd_export_append(list, field_of(INDEX, INDEX_PATH), &failed);
	smd_export_append(list, field_of(ATTEMPT, ATTEMPT_PATH), &failed);
	for (size_t i = 0; i < texts->nvariables && !failed; i++) {
		const struct smd_named_text *variable = &texts->variables[i];
		json_t *value = needs_shell(&variable->text) ? NULL : value_of(&variable->text);

		if (value) {
			smd_export_append(list,
				json_pack("{s:s, s:o}", "name", variable->name, "value", value),
				&failed);
		} else if (!needs_shell(&variable->text)) {
			failed = 1;
		}
	}
	if (failed) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *resources_of(struct smd_export *export, int pool)
{
	const struct smd_job_pool *spec = &export->job->pools[pool];
	const char *rdma = pool < 3 ? export->options->rdma_resource : NULL;
	json_t *requests = json_object();
	json_t *limits = json_object();
	struct smd_machine machine;
	int failed = !requests || !limits;
	char text[32];

	if (smd_export_machine(export, pool, "CPUs and memory of its pods are", &machine) == 0) {
		snprintf(text, sizeof(text), "%dm", machine.vcpu * 1000 * SHARE);
		smd_export_put(requests, "cpu", json_string(text), &failed);
		snprintf(text, sizeof(text), "%.0fMi", machine.memory_gb * 1024 * SHARE);
		smd_export_put(requests, "memory", json_string(text), &failed);
		if (machine.rdma_gbps > 0 && !rdma && pool < 3) {
			smd_export_note(export,
				"RDMA devices of %s: --rdma-resource=NAME asks for them by the "
				"name "
				"that the cluster's device plugin has for them",
				machine.name);
		}
	}
	if (spec->accelerator_count > 0) {
		smd_export_put(
			limits, "nvidia.com/gpu", json_integer(spec->accelerator_count), &failed);
	}
	if (rdma) {
		smd_export_put(limits, rdma, json_integer(1), &failed);
	}
	if (failed) {
		json_decref(requests);
		json_decref(limits);
		return NULL;
	}
	if (json_object_size(limits) > 0) {
		return json_pack("{s:o, s:o}", "requests", requests, "limits", limits);
	}
	json_decref(limits);
	return json_pack("{s:o}", "requests", requests);
}

/* A volume, and where the container has it. */
static void add_volume(json_t *volumes, json_t *mounts, const char *name, const char *path,
	json_t *source, int *failed)
{
	*failed |= !source || json_object_set_new(source, "name", json_string(name));
	smd_export_append(volumes, source, failed);
	smd_export_append(mounts, json_pack("{s:s, s:s}", "name", name, "mountPath", path), failed);
}

static int add_volumes(const struct smd_export *export, int pool, json_t *pod, json_t *container)
{
	const struct smd_job *job = export->job;
	json_t *volumes = json_array();
	json_t *mounts = json_array();
	char secret[128];
	int failed = !volumes || !mounts;

	if (pool <= 1) {
		add_volume(volumes, mounts, "shm", "/dev/shm",
			json_pack("{s:{s:s}}", "emptyDir", "medium", "Memory"), &failed);
	}
	if (pool <= 2 && smd_export_has_servers(job)) {
		snprintf(secret, sizeof(secret), "%s-token", export->name);
		add_volume(volumes, mounts, "token", TOKEN_FOLDER,
			json_pack("{s:{s:s, s:i}}", "secret", "secretName", secret, "defaultMode",
				0400),
			&failed);
	}
	if (job->output_uri && export->options->volume_claim &&
		job->pools[pool].role != SMD_ROLE_REDUCTION_SERVER) {
		add_volume(volumes, mounts, "output", SMD_EXPORT_OUTPUT_DIR,
			json_pack("{s:{s:s}}", "persistentVolumeClaim", "claimName",
				export->options->volume_claim),
			&failed);
	}
	if (json_array_size(volumes) == 0) {
		json_decref(volumes);
		json_decref(mounts);
		return failed ? -ENOMEM : 0;
	}
	smd_export_put(pod, "volumes", volumes, &failed);
	smd_export_put(container, "volumeMounts", mounts, &failed);
	return failed ? -ENOMEM : 0;
}

static json_t *container_of(struct smd_export *export, int pool, const struct smd_pool_texts *texts,
	struct smd_error *error)
{
	const struct smd_job_pool *spec = &export->job->pools[pool];
	json_t *container =
		json_pack("{s:s, s:s}", "name", "replica", "image", smd_export_image(export, pool));
	int failed = !container;
	int ret = pool_needs_shell(texts) ? add_script(export, pool, texts, container, error)
					  : add_words(export, pool, texts, container);

	smd_export_put(container, "env", environment_of(texts), &failed);
	smd_export_put(container, "resources", resources_of(export, pool), &failed);
	if (pool < 3 && export->options->rdma_resource) {
		smd_export_put(container, "securityContext",
			json_pack("{s:{s:[s]}}", "capabilities", "add", "IPC_LOCK"), &failed);
	}
	if (spec->role == SMD_ROLE_REDUCTION_SERVER) {
		smd_export_put(container, "startupProbe",
			json_pack("{s:{s:i}, s:i, s:i}", "tcpSocket", "port", SMD_EXPORT_PORT,
				"periodSeconds", 1, "failureThreshold", 120),
			&failed);
	}
	if (ret || failed) {
		smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
		json_decref(container);
		return NULL;
	}
	return container;
}

/* The exit codes after which the job is over, as a rule's member; NULL: none are. */
static json_t *final_codes(const struct smd_job *job)
{
	json_t *values;

	if (job->restart_policy == SMD_RESTART_ON_FAILURE) {
		return NULL;
	}
	if (job->restart_policy == SMD_RESTART_NEVER) {
		return job->restart_job_on_worker_restart
			       ? json_pack("{s:s, s:[i,i,i]}", "operator", "NotIn", "values", 0,
					 SIGKILLED, SIGTERMED)
			       : json_pack("{s:s, s:[i]}", "operator", "NotIn", "values", 0);
	}
	values = json_array();
	for (int code = 1; values && code < 128; code++) {
		if (!smd_exit_codes_contain(&job->retryable, code)) {
			json_array_append_new(values, json_integer(code));
		}
	}
	return json_pack("{s:s, s:o}", "operator", "In", "values", values);
}

static int max_restarts(const struct smd_job *job)
{
	return job->disable_retries ? 0 : job->max_restarts;
}

/* A pod that the cluster takes away is no failure of the program. */
static void add_failure_rules(const struct smd_job *job, json_t *spec, int *failed)
{
	json_t *codes = max_restarts(job) > 0 ? final_codes(job) : NULL;

	if (codes) {
		smd_export_put(spec, "podFailurePolicy",
			json_pack("{s:[{s:s, s:[{s:s, s:s}]}, {s:s, s:o}]}", "rules", "action",
				"Count", "onPodConditions", "type", "DisruptionTarget", "status",
				"True", "action", "FailJob", "onExitCodes", codes),
			failed);
	}
}

static json_t *failure_policy(const struct smd_job *job)
{
	json_t *codes = max_restarts(job) > 0 ? final_codes(job) : NULL;
	json_t *policy = json_pack("{s:i}", "maxRestarts", max_restarts(job));
	int failed = !policy;

	if (codes) {
		smd_export_put(policy, "rules",
			json_pack("[{s:s, s:s, s:[s]}]", "name", "programs-fault", "action",
				"FailJobSet", "onJobFailureReasons", "PodFailurePolicy"),
			&failed);
	}
	json_decref(codes);
	if (failed) {
		json_decref(policy);
		return NULL;
	}
	return policy;
}

static json_t *pod_of(struct smd_export *export, int pool, const struct smd_pool_texts *texts,
	struct smd_error *error)
{
	json_t *container = container_of(export, pool, texts, error);
	json_t *pod = container ? json_pack("{s:s}", "restartPolicy", "Never") : NULL;
	int failed = !pod || add_volumes(export, pool, pod, container);

	if (!failed) {
		smd_export_put(pod, "containers", json_pack("[o]", container), &failed);
	} else {
		json_decref(container);
	}
	if (failed) {
		json_decref(pod);
		return NULL;
	}
	return pod;
}

static json_t *replicated_job(struct smd_export *export, int pool,
	const struct smd_pool_texts *texts, struct smd_error *error)
{
	const struct smd_job *job = export->job;
	int count = job->pools[pool].replica_count;
	json_t *pod = pod_of(export, pool, texts, error);
	json_t *spec = pod ? json_pack("{s:s, s:i, s:i, s:i}", "completionMode", "Indexed",
				     "completions", count, "parallelism", count, "backoffLimit", 0)
			   : NULL;
	json_t *entry = NULL;
	char name[SMD_REPLICA_NAME_MAX];
	int failed = !spec;

	if (job->timeout_s != SMD_JOB_TIMEOUT_DEFAULT_S && spec) {
		smd_export_put(
			spec, "activeDeadlineSeconds", json_integer(job->timeout_s), &failed);
	}
	if (spec) {
		add_failure_rules(job, spec, &failed);
		smd_export_put(spec, "template", json_pack("{s:o}", "spec", pod), &failed);
	}
	snprintf(name, sizeof(name), "workerpool%d", pool);
	if (!failed) {
		entry = json_pack("{s:s, s:i}", "name", name, "replicas", 1);
		if (entry && pool != 2 && job->pools[2].replica_count > 0) {
			smd_export_put(entry, "dependsOn",
				json_pack("[{s:s, s:s}]", "name", "workerpool2", "status", "Ready"),
				&failed);
		}
		smd_export_put(entry, "template", json_pack("{s:o}", "spec", spec), &failed);
	} else {
		json_decref(spec);
	}
	return entry;
}

/* Servers come first: others may depend only on what stands before them. */
static int add_pools(struct smd_export *export, json_t *jobs, struct smd_error *error)
{
	static const int order[SMD_JOB_POOLS_MAX] = {2, 0, 1, 3};
	struct smd_placement placement;
	struct smd_placement listening;
	int ret = place(export, &placement);

	if (ret) {
		return ret;
	}
	ret = smd_export_place_listening(export, &placement, &listening);
	if (ret) {
		smd_placement_free(&placement);
		return ret;
	}
	for (int i = 0; i < SMD_JOB_POOLS_MAX && !ret; i++) {
		struct smd_pool_texts texts;

		if (export->job->pools[order[i]].replica_count == 0) {
			continue;
		}
		ret = smd_pool_texts_create(
			export->job, &placement, &listening, order[i], &texts, error);
		if (!ret) {
			json_t *entry = replicated_job(export, order[i], &texts, error);

			ret = !entry || json_array_append_new(jobs, entry) ? -ENOTSUP : 0;
			smd_pool_texts_free(&texts);
		}
	}
	smd_placement_free(&listening);
	smd_placement_free(&placement);
	return ret;
}

static int build(struct smd_export *export, struct smd_error *error)
{
	const struct smd_job *job = export->job;
	int all = job->success_policy == SMD_SUCCESS_ALL_WORKERS && job->pools[1].replica_count;
	json_t *jobs = json_array();
	json_t *winners = all ? json_pack("[s,s]", "workerpool0", "workerpool1")
			      : json_pack("[s]", "workerpool0");
	json_t *policy = failure_policy(job);
	int ret = jobs && winners && policy ? add_pools(export, jobs, error) : -ENOMEM;

	if (ret) {
		json_decref(jobs);
		json_decref(winners);
		json_decref(policy);
		return ret;
	}
	export->object = json_pack("{s:s, s:s, s:{s:s}, s:{s:{s:b, s:s}, s:{s:s, s:o}, s:o, s:o}}",
		"apiVersion", "jobset.x-k8s.io/v1alpha2", "kind", "JobSet", "metadata", "name",
		export->name, "spec", "network", "enableDNSHostnames", 1, "subdomain", export->name,
		"successPolicy", "operator", "All", "targetReplicatedJobs", winners,
		"failurePolicy", policy, "replicatedJobs", jobs);
	return export->object ? 0 : -ENOMEM;
}

static int note_all(struct smd_export *export)
{
	const struct smd_job *job = export->job;
	int ret = smd_export_note_omissions(export, place);

	if (!ret && job->output_uri && !export->options->volume_claim) {
		ret = smd_export_note(export,
			"%s: nothing mounts it; --volume-claim=NAME puts a persistent volume in "
			"its "
			"place",
			job->output_uri);
	}
	if (!ret && job->budgets.count > 0) {
		ret = smd_export_note(export,
			"summand-exit-code-restarts: a JobSet counts all restarts together");
	}
	if (!ret && max_restarts(job) > 0 && job->restart_scope == SMD_RESTART_REPLICA) {
		ret = smd_export_note(
			export, "summand-restart-scope: replica: a JobSet restarts all replicas");
	}
	return ret;
}

static int print_head(struct smd_export *export)
{
	size_t length;
	FILE *out = open_memstream(&export->head, &length);

	if (!out) {
		return -ENOMEM;
	}
	fprintf(out,
		"# %s: %d replicas in worker pools, exported by summand " SUMMAND_VERSION
		" for Kubernetes with JobSet\n"
		"# 0.8 or later.\n"
		"#\n",
		export->name, smd_job_replica_count(export->job));
	if (smd_export_has_servers(export->job)) {
		fprintf(out,
			"#   kubectl create secret generic %s-token --from-literal=token=$(openssl "
			"rand -hex 32)\n",
			export->name);
	}
	fputs("#   kubectl apply -f FILE\n"
	      "#\n"
	      "# Pods ask for four fifths of their machine, as Kubernetes keeps some of it; so "
	      "each "
	      "has a node of its own.\n",
		out);
	smd_export_print_notes(export, out);
	return fclose(out) ? -ENOMEM : 0;
}

int smd_export_jobset(struct smd_export *export, struct smd_error *error)
{
	int ret = smd_export_need_container(export, "a JobSet", error);

	ret = ret ? ret : note_all(export);
	ret = ret ? ret : build(export, error);
	return ret ? ret : print_head(export);
}
