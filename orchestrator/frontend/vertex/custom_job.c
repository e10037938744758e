/* Decodes a CustomJob: its name, labels and times; its pools are worker_pool.c's. */
#include "orchestrator/frontend/vertex/custom_job.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/schema.h"
#include "orchestrator/frontend/rules.h"
#include "orchestrator/frontend/setting.h"
#include "orchestrator/frontend/vertex/rank_launcher.h"
#include "orchestrator/frontend/vertex/study.h"
#include "orchestrator/job/trial.h"
#include "reduction_server/base/hash.h"

#define DISPLAY_NAME_DEFAULT "custom-job"
#define LABEL_MAX            64 /* characters */
#define LABELS_MAX           64
#define FIRST_TRIAL          "1"
#define LABELS_SCHEMA                                                                              \
	"{\"^(?!" SMD_SETTING_PREFIX ")[^\\\\x00-,./:-^`{-\\\\x7f]{1,64}$\": "                     \
	"{\"type\": \"string\", \"maxLength\": 64, \"pattern\": "                                  \
	"\"^[^\\\\x00-,./:-^`{-\\\\x7f]*$\"}}"

#define MAX_WAIT_DEFAULT_S (24 * 3600)

#define OWN_NETWORK "replicas use the network of their machines"
#define NO_METADATA "no experiments or models are stored"

/* Names of Google Cloud's resources, as forms. */
#define PROJECT  "^projects/[^/]+/"
#define LOCATION PROJECT "locations/[^/]+/"

#define CONTEXT_FIELD(name_)                                                                       \
	SMD_FIELD((name_), smd_decode_string, SMD_KEPT,                                            \
		.form = LOCATION "metadataStores/[^/]+/contexts/[^/]+$",                           \
		.example = "projects/PROJECT/locations/LOCATION/metadataStores/STORE/contexts/"    \
			   "NAME",                                                                 \
		.note = NO_METADATA)

static const char *const strategies[] = {
	"STANDARD", "SPOT", "FLEX_START", "ON_DEMAND", "LOW_COST", "STRATEGY_UNSPECIFIED", NULL};

static const int strategy_numbers[] = {3, 4, 6, 1, 2, 0};

static const struct smd_field scheduling_rows[] = {
	SMD_FIELD("timeout", smd_decode_duration, offsetof(struct smd_job, timeout_s)),
	SMD_FIELD("restartJobOnWorkerRestart", smd_decode_boolean,
		offsetof(struct smd_job, restart_job_on_worker_restart)),
	SMD_FIELD("strategy", smd_decode_enum, SMD_KEPT, .values = strategies,
		.numbers = strategy_numbers, .note = "nothing is bought"),
	SMD_FIELD("disableRetries", smd_decode_boolean, offsetof(struct smd_job, disable_retries)),
	SMD_FIELD("maxWaitDuration", smd_decode_duration, offsetof(struct smd_job, max_wait_s)),
};
static const struct smd_message scheduling = SMD_MESSAGE("Scheduling", scheduling_rows);

static const struct smd_field output_directory_rows[] = {
	SMD_FIELD("outputUriPrefix", smd_decode_string, offsetof(struct smd_job, output_uri),
		.required = 1),
};
static const struct smd_message output_directory =
	SMD_MESSAGE("GcsDestination", output_directory_rows);

static const struct smd_field dns_peering_rows[] = {
	SMD_FIELD("domain", smd_decode_string, SMD_KEPT, .required = 1, .form = "\\.$",
		.example = "a domain with a dot at its end, such as \"corp.\""),
	SMD_FIELD("targetProject", smd_decode_string, SMD_KEPT, .required = 1),
	SMD_FIELD("targetNetwork", smd_decode_string, SMD_KEPT, .required = 1),
};
static const struct smd_message dns_peering = SMD_MESSAGE("DnsPeeringConfig", dns_peering_rows);

static const struct smd_field psc_interface_rows[] = {
	SMD_FIELD("networkAttachment", smd_decode_string, SMD_KEPT,
		.form = "^(projects/[^/]+/regions/[^/]+/networkAttachments/)?[^/]+$",
		.example = "NAME or projects/PROJECT/regions/REGION/networkAttachments/NAME"),
	SMD_FIELD("dnsPeeringConfigs", smd_decode_objects, SMD_KEPT, .message = &dns_peering),
};
static const struct smd_message psc_interface =
	SMD_MESSAGE("PscInterfaceConfig", psc_interface_rows);

static const struct smd_field spec_rows[] = {
	SMD_FIELD("persistentResourceId", smd_decode_string, SMD_KEPT,
		.form = "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$",
		.example = "at most 63 lower-case letters, digits and -, and begin with a letter",
		.note = "no machine outlives a job"),
	SMD_FIELD("workerPoolSpecs", smd_decode_worker_pools, 0, .required = 1,
		.message = &smd_worker_pool_spec, .describe = smd_describe_worker_pools,
		.is_list = 1),
	SMD_FIELD("scheduling", smd_decode_object, 0, .message = &scheduling),
	SMD_FIELD("serviceAccount", smd_decode_string, SMD_KEPT, .form = "^[^@ ]+@[^@ ]+$",
		.example = "an account's e-mail address",
		.note = "replicas run as the user who starts them"),
	SMD_FIELD("network", smd_decode_string, SMD_KEPT, .form = PROJECT "global/networks/[^/]+$",
		.example = "projects/PROJECT/global/networks/NETWORK", .note = OWN_NETWORK),
	SMD_FIELD("reservedIpRanges", smd_decode_strings, SMD_KEPT, .note = OWN_NETWORK),
	SMD_FIELD("pscInterfaceConfig", smd_decode_object, SMD_KEPT, .message = &psc_interface,
		.note = OWN_NETWORK),
	SMD_FIELD("baseOutputDirectory", smd_decode_object, 0, .message = &output_directory),
	SMD_FIELD("protectedArtifactLocationId", smd_decode_string, SMD_KEPT,
		.note = "artifacts are written to baseOutputDirectory"),
	SMD_FIELD("tensorboard", smd_decode_string, SMD_KEPT,
		.form = LOCATION "tensorboards/[^/]+$",
		.example = "projects/PROJECT/locations/LOCATION/tensorboards/NAME",
		.note = "logs for TensorBoard are left in AIP_TENSORBOARD_LOG_DIR"),
	SMD_FIELD("enableWebAccess", smd_decode_boolean, SMD_KEPT,
		.note = "replicas are processes that a shell reaches anyway"),
	SMD_FIELD("enableDashboardAccess", smd_decode_boolean, SMD_KEPT,
		.note = "there is no dashboard"),
	CONTEXT_FIELD("experiment"),
	CONTEXT_FIELD("experimentRun"),
	SMD_FIELD("models", smd_decode_strings, SMD_KEPT, .form = LOCATION "models/[^/]+$",
		.example = "projects/PROJECT/locations/LOCATION/models/MODEL", .note = NO_METADATA),
};
const struct smd_message smd_custom_job_spec = SMD_MESSAGE("CustomJobSpec", spec_rows);

static const struct smd_field encryption_rows[] = {
	SMD_FIELD("kmsKeyName", smd_decode_string, SMD_KEPT, .required = 1,
		.form = LOCATION "keyRings/[^/]+/cryptoKeys/[^/]+$",
		.example = "projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY"),
};
static const struct smd_message encryption = SMD_MESSAGE("EncryptionSpec", encryption_rows);

/* What the service writes, so that the answer of `describe` can be given back as a spec. */
#define OUTPUT_ROWS                                                                                \
	SMD_FIELD("name", smd_decode_anything, SMD_KEPT),                                          \
		SMD_FIELD("state", smd_decode_anything, SMD_KEPT),                                 \
		SMD_FIELD("createTime", smd_decode_anything, SMD_KEPT),                            \
		SMD_FIELD("startTime", smd_decode_anything, SMD_KEPT),                             \
		SMD_FIELD("endTime", smd_decode_anything, SMD_KEPT),                               \
		SMD_FIELD("updateTime", smd_decode_anything, SMD_KEPT),                            \
		SMD_FIELD("error", smd_decode_anything, SMD_KEPT),                                 \
		SMD_FIELD("satisfiesPzs", smd_decode_anything, SMD_KEPT),                          \
		SMD_FIELD("satisfiesPzi", smd_decode_anything, SMD_KEPT)

/* Settings, and what is_label() takes. */
static json_t *describe_labels(struct smd_schema *schema, const struct smd_field *field)
{
	json_t *others = smd_schema_text(LABELS_SCHEMA);
	json_t *settings = smd_settings_describe();

	(void)schema;
	(void)field;
	return json_pack("{s:s, s:o, s:o, s:b, s:i}", "type", "object", "properties", settings,
		"patternProperties", others, "additionalProperties", 0, "maxProperties", LABELS_MAX);
}

static const struct smd_field job_rows[] = {
	SMD_FIELD("displayName", smd_decode_string, offsetof(struct smd_job, display_name),
		.required = 1, .schema = SMD_DISPLAY_NAME_SCHEMA),
	SMD_FIELD("jobSpec", smd_decode_object, 0, .required = 1, .message = &smd_custom_job_spec),
	SMD_FIELD("labels", smd_decode_map, offsetof(struct smd_job, labels),
		.count_offset = offsetof(struct smd_job, nlabels), .describe = describe_labels),
	SMD_FIELD("encryptionSpec", smd_decode_object, SMD_KEPT, .message = &encryption,
		.note = "files are written as they are"),
	SMD_FIELD("webAccessUris", smd_decode_anything, SMD_KEPT),
	OUTPUT_ROWS,
};
const struct smd_message smd_custom_job = SMD_MESSAGE("CustomJob", job_rows);

static const struct smd_field tuning_rows[] = {
	SMD_FIELD("displayName", smd_decode_string, offsetof(struct smd_job, display_name),
		.schema = SMD_DISPLAY_NAME_SCHEMA),
	SMD_FIELD("studySpec", smd_decode_object, SMD_KEPT, .required = 1,
		.message = &smd_study_spec),
	SMD_FIELD("maxTrialCount", smd_decode_count, offsetof(struct smd_job, max_trial_count),
		.min = 1),
	SMD_FIELD("parallelTrialCount", smd_decode_count,
		offsetof(struct smd_job, parallel_trial_count), .min = 1),
	SMD_FIELD("maxFailedTrialCount", smd_decode_count,
		offsetof(struct smd_job, max_failed_trial_count)),
	SMD_FIELD("trialJobSpec", smd_decode_object, 0, .required = 1,
		.message = &smd_custom_job_spec),
	SMD_FIELD("labels", smd_decode_map, offsetof(struct smd_job, labels),
		.count_offset = offsetof(struct smd_job, nlabels), .describe = describe_labels),
	SMD_FIELD("encryptionSpec", smd_decode_object, SMD_KEPT, .message = &encryption,
		.note = "files are written as they are"),
	SMD_FIELD("trials", smd_decode_anything, SMD_KEPT),
	OUTPUT_ROWS,
};
const struct smd_message smd_tuning_job = SMD_MESSAGE("HyperparameterTuningJob", tuning_rows);

/* Lower case, digits, _ and -; letters of other scripts pass. */
static int is_label(const char *text)
{
	for (const char *c = text; *c; c++) {
		unsigned char byte = (unsigned char)*c;

		if (byte < 0x80 && !islower(byte) && !isdigit(byte) && byte != '_' && byte != '-') {
			return 0;
		}
	}
	return smd_count_characters(text) <= LABEL_MAX;
}

static void check_labels(struct smd_decoder *decoder, const struct smd_node *labels)
{
	static const char rule[] = "must be at most 64 lower-case letters, digits, _ and -";
	char got[SMD_NODE_TEXT_MAX];
	size_t count = 0;

	if (!labels || labels->type != SMD_NODE_OBJECT) {
		return;
	}
	for (const struct smd_node *node = labels->first; node; node = node->next) {
		count++;
		if (!node->key[0] || !is_label(node->key)) {
			smd_error_at_name(decoder->diagnostics, node, "a label's name %s%s", rule,
				node->key[0] ? "" : ", and not empty");
		}
		if (node->type == SMD_NODE_STRING && !is_label(node->string)) {
			smd_node_describe(node, got);
			smd_error_at_value(decoder->diagnostics, node, "%s, got %s", rule, got);
		}
	}
	if (count > LABELS_MAX) {
		smd_error_at_value(decoder->diagnostics, labels, "must be at most %d labels, got %zu",
			LABELS_MAX, count);
	}
}

static void check_job(
	struct smd_decoder *decoder, const struct smd_node *document, struct smd_job *job)
{
	smd_check_display_name(decoder, smd_node_member(document, "displayName"));
	check_labels(decoder, smd_node_member(document, "labels"));
	smd_settings_decode(decoder, smd_node_member(document, "labels"), job);
}

static void check_timeout(
	struct smd_decoder *decoder, const struct smd_node *spec, const struct smd_job *job)
{
	const struct smd_node *timing = smd_node_member(spec, "scheduling");
	const struct smd_node *timeout = timing ? smd_node_member(timing, "timeout") : NULL;

	if (timeout && job->timeout_s == 0) {
		smd_error_at_value(decoder->diagnostics, timeout, "must be longer than \"0s\"");
	}
}

static int has_same_words(const struct smd_job_pool *a, const struct smd_job_pool *b)
{
	size_t count = a->ncommand + a->nargs;

	if (count != b->ncommand + b->nargs) {
		return 0;
	}
	for (size_t i = 0; i < count; i++) {
		if (strcmp(smd_job_pool_word(a, i), smd_job_pool_word(b, i)) != 0) {
			return 0;
		}
	}
	return 1;
}

/* One mpirun for all replicas: its program is everywhere the same. */
static void check_mpirun(struct smd_decoder *decoder, const struct smd_node *at,
	const struct smd_rank_launcher *launcher, struct smd_job *job)
{
	int replicas = 1 + job->pools[1].replica_count;

	if (launcher && !launcher->is_mpi) {
		smd_not_run(decoder->diagnostics, at,
			"distribution mpi: must have the program itself as the command, which "
			"mpirun starts, got %s, which %s",
			launcher->name, launcher->does);
	} else if (launcher && !job->has_own_mpirun) {
		smd_not_run(decoder->diagnostics, at,
			"distribution mpi: %s must be the command's first word, or not be in it, "
			"got it further inside, where each of %d ranks would start a world of its "
			"own; have the program alone, which Summand starts as %d ranks, or begin "
			"with %s, with -wdir DIR in place of cd and variables in env",
			launcher->name, replicas * job->processes_per_replica,
			replicas * job->processes_per_replica, launcher->name);
	} else if (job->pools[1].replica_count > 0 &&
		   !has_same_words(&job->pools[0], &job->pools[1])) {
		smd_not_run(decoder->diagnostics, at,
			"distribution mpi: worker pool 1 must have the command and args of worker "
			"pool 0, because one mpirun starts all ranks");
	} else if (job->has_own_mpirun) {
		smd_note_at_name(decoder->diagnostics, at,
			"the %s of workerpool0-0 starts the ranks of %d replica%s", launcher->name,
			replicas, replicas == 1 ? "" : "s");
	} else {
		smd_note_at_name(decoder->diagnostics, at,
			"an mpirun on workerpool0-0 starts %d ranks, %d on each of %d replica%s",
			replicas * job->processes_per_replica, job->processes_per_replica, replicas,
			replicas == 1 ? "" : "s");
	}
}

/* Without an mpirun each process that calls MPI_Init is a world of its own, and trains alone; with
 * one on each replica each replica is. So there is one for all, unless a job says otherwise. */
static void check_mpi(
	struct smd_decoder *decoder, const struct smd_node *document, struct smd_job *job)
{
	const struct smd_node *labels = smd_node_member(document, "labels");
	const struct smd_node *launch =
		labels ? smd_node_member(labels, SMD_SETTING_PREFIX "launch") : NULL;
	const struct smd_node *distribution =
		labels ? smd_node_member(labels, SMD_SETTING_PREFIX "distribution") : NULL;
	const struct smd_rank_launcher *launcher = smd_rank_launcher_of(&job->pools[0]);
	int replicas = 1 + job->pools[1].replica_count;

	if (!distribution || job->distribution != SMD_DISTRIBUTION_MPI) {
		if (launch && job->launch == SMD_LAUNCH_MPIRUN) {
			smd_error_at_value(decoder->diagnostics, launch,
				"must be with " SMD_SETTING_PREFIX "distribution: mpi, got mpirun");
		}
		return;
	}
	if (!launch && launcher && replicas == 1) {
		job->launch = SMD_LAUNCH_NODE; /* it needs nobody to reach the others */
	} else if (!launch && replicas * job->processes_per_replica > 1) {
		job->launch = SMD_LAUNCH_MPIRUN;
	}
	if (job->launch == SMD_LAUNCH_MPIRUN) {
		job->has_own_mpirun = launcher && launcher->is_mpi;
		check_mpirun(decoder, launch ? launch : distribution,
			launcher ? launcher : smd_rank_launcher_inside(&job->pools[0]), job);
	} else if (launch && job->launch == SMD_LAUNCH_NODE && replicas > 1) {
		smd_warning_at_name(decoder->diagnostics, launch,
			"distribution mpi on %d replicas: where each runs mpirun, each trains "
			"alone; with " SMD_SETTING_PREFIX "launch: mpirun one reaches all of them",
			replicas);
	} else if (launch && job->launch == SMD_LAUNCH_PROCESS &&
		   replicas * job->processes_per_replica > 1) {
		smd_warning_at_name(decoder->diagnostics, launch,
			"distribution mpi on %d processes: where each calls MPI_Init, each is rank "
			"0 of 1 and trains alone; with " SMD_SETTING_PREFIX
			"launch: mpirun they are one world",
			replicas * job->processes_per_replica);
	}
}

/* A launcher that only the chief runs may reach the others, as by ssh; one on each makes a world of
 * each. check_mpi() has told those who say what their launcher is. */
static void check_worlds(
	struct smd_decoder *decoder, const struct smd_node *spec, const struct smd_job *job)
{
	const struct smd_node *pools = smd_node_member(spec, "workerPoolSpecs");
	const struct smd_rank_launcher *launcher = smd_rank_launcher_of(&job->pools[0]);

	if (pools && launcher && job->pools[1].replica_count > 0 &&
		job->distribution != SMD_DISTRIBUTION_MPI && smd_rank_launcher_of(&job->pools[1])) {
		smd_warning_at_name(decoder->diagnostics, pools,
			"%s on each of %d replicas: each trains alone, because none of them knows "
			"of the others; %s",
			launcher->name, 1 + job->pools[1].replica_count, launcher->instead);
	}
}

/* Reducers on the workers' hosts are replicas of worker pool 2. */
static void check_hybrid(
	struct smd_decoder *decoder, const struct smd_node *document, struct smd_job *job)
{
	const struct smd_node *labels = smd_node_member(document, "labels");
	const struct smd_node *hybrid =
		labels ? smd_node_member(labels, SMD_SETTING_PREFIX "hybrid") : NULL;
	struct smd_job_pool *servers = &job->pools[2];

	if (job->hybrid != SMD_HYBRID_ON) {
		return;
	}
	if (servers->replica_count == 0) {
		servers->role = SMD_ROLE_REDUCTION_SERVER;
	} else if (servers->role != SMD_ROLE_REDUCTION_SERVER) {
		smd_error_at_value(decoder->diagnostics, hybrid,
			"must be without parameter servers in worker pool 2, got on");
	}
}

/* A hash over the spec with sorted names: neither order nor white space changes the id. */
static int set_id(struct smd_job *job)
{
	char *canonical = json_dumps(job->spec, JSON_COMPACT | JSON_SORT_KEYS);
	uint64_t hash;

	if (!canonical) {
		return -ENOMEM;
	}
	hash = smd_hash(SMD_HASH_SEED, canonical, strlen(canonical));
	free(canonical);
	snprintf(job->id, sizeof(job->id), "%010llx",
		(unsigned long long)((hash >> 40 ^ hash) & 0xffffffffffu));
	return 0;
}

/* What does not depend on anything being right. */
static int finish(struct smd_job *job, const struct smd_node *document,
	const struct smd_message *message, const struct smd_node *spec)
{
	const char *name = "jobSpec";

	if (!job->display_name) {
		job->display_name = strdup(DISPLAY_NAME_DEFAULT);
	}
	job->resolved = smd_node_to_json(document);
	if (job->resolved && smd_message_respell(message, job->resolved)) {
		return -ENOMEM;
	}
	if (job->display_name && job->resolved && document == spec) {
		job->resolved = json_pack(
			"{s:s, s:o}", "displayName", job->display_name, "jobSpec", job->resolved);
	}
	if (document != spec && message == &smd_tuning_job) {
		name = "trialJobSpec";
	}
	job->spec = json_incref(json_object_get(job->resolved, name));
	return job->display_name && job->spec ? set_id(job) : -ENOMEM;
}

/* The first trial of a tuning job is a job like any other. */
static void set_first_trial(
	struct smd_decoder *decoder, const struct smd_node *study, struct smd_job *job)
{
	double *point;

	decoder->ret = smd_study_decode(decoder, study, &job->study);
	if (decoder->ret || !job->study) {
		return;
	}
	point = calloc(job->study->nparameters, sizeof(*point));
	if (point) {
		smd_study_first_point(job->study, point);
	}
	decoder->ret = point ? smd_job_set_trial(job, FIRST_TRIAL, point) : -ENOMEM;
	free(point);
}

static void decode_tuning(
	struct smd_decoder *decoder, const struct smd_node *document, struct smd_job *job)
{
	const struct smd_node *study = smd_node_member(document, "studySpec");
	const struct smd_node *parallel = smd_node_member(document, "parallelTrialCount");

	decoder->root = &smd_tuning_job;
	job->max_trial_count = 1; /* as gcloud has it */
	job->parallel_trial_count = 1;
	smd_decode_message(decoder, &smd_tuning_job, document, job);
	check_job(decoder, document, job);
	if (study) {
		smd_study_check(decoder, study);
	}
	if (parallel && job->parallel_trial_count > job->max_trial_count &&
		job->max_trial_count > 0) {
		smd_error_at_value(decoder->diagnostics, parallel,
			"must be at most maxTrialCount, got %d", job->parallel_trial_count);
	}
	if (!decoder->ret && !decoder->diagnostics->found[SMD_SEVERITY_ERROR]) {
		set_first_trial(decoder, study, job);
	}
}

const char *const smd_custom_job_marks[] = {"jobSpec", "displayName", "labels", NULL};
const char *const smd_tuning_job_marks[] = {"trialJobSpec", "studySpec", NULL};

static int has_mark(const struct smd_node *document, const char *const *marks)
{
	while (*marks && !smd_node_member(document, *marks)) {
		marks++;
	}
	return *marks != NULL;
}

int smd_tuning_job_is(const struct smd_node *document)
{
	return has_mark(document, smd_tuning_job_marks);
}

int smd_custom_job_is(const struct smd_node *document)
{
	return !smd_tuning_job_is(document) && has_mark(document, smd_custom_job_marks);
}

int smd_custom_job_spec_is(const struct smd_node *document)
{
	return !smd_tuning_job_is(document) && !smd_custom_job_is(document) &&
	       smd_node_member(document, "workerPoolSpecs");
}

/* Decodes the document by what it is, a CustomJobSpec if nothing else; the CustomJobSpec in it. */
static const struct smd_node *decode_document(
	struct smd_decoder *decoder, const struct smd_node *document, struct smd_job *job)
{
	if (document->type == SMD_NODE_ARRAY) {
		smd_error_at_value(decoder->diagnostics, document,
			"must be an object, got an array; worker pools are written "
			"{\"workerPoolSpecs\": [...]}");
		return NULL;
	}
	if (smd_tuning_job_is(document)) {
		decode_tuning(decoder, document, job);
		return smd_node_member(document, "trialJobSpec");
	}
	if (smd_custom_job_is(document)) {
		decoder->root = &smd_custom_job;
		smd_decode_message(decoder, &smd_custom_job, document, job);
		check_job(decoder, document, job);
		return smd_node_member(document, "jobSpec");
	}
	decoder->root = &smd_custom_job_spec;
	smd_decode_message(decoder, &smd_custom_job_spec, document, job);
	return document;
}

int smd_custom_job_decode(
	const struct smd_node *document, struct smd_diagnostics *diagnostics, struct smd_job **out)
{
	struct smd_decoder decoder = {.diagnostics = diagnostics};
	struct smd_job *job = calloc(1, sizeof(*job));
	const struct smd_node *spec;
	int ret;

	if (!job) {
		return -ENOMEM;
	}
	job->timeout_s = SMD_JOB_TIMEOUT_DEFAULT_S;
	job->max_wait_s = MAX_WAIT_DEFAULT_S;
	smd_settings_init(job);
	spec = decode_document(&decoder, document, job);
	smd_decode_finish(&decoder);
	if (spec) {
		check_timeout(&decoder, spec, job);
	}
	/* Words that are wrong are not there. */
	if (spec && !decoder.ret && !diagnostics->found[SMD_SEVERITY_ERROR]) {
		check_mpi(&decoder, document, job);
		check_worlds(&decoder, spec, job);
		check_hybrid(&decoder, document, job);
	}
	ret = decoder.ret                              ? decoder.ret
	      : diagnostics->found[SMD_SEVERITY_ERROR] ? -EINVAL
						       : finish(job, document, decoder.root, spec);
	if (ret) {
		smd_job_free(job);
		return ret;
	}
	*out = job;
	return 0;
}
