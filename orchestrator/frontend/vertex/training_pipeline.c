/* Takes the job out of a TrainingPipeline. */
#include "orchestrator/frontend/vertex/training_pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/document/schema.h"
#include "orchestrator/document/settle.h"
#include "orchestrator/frontend/rules.h"
#include "orchestrator/frontend/vertex/custom_job.h"

#define NO_MODELS "no models are stored"
#define DEFINITION_FORM                                                                            \
	"^gs://google-cloud-aiplatform/schema/trainingjob/definition/"                             \
	"(custom_task|hyperparameter_tuning_task)_1\\.0\\.0\\.yaml$"

const char *const smd_training_pipeline_marks[] = {
	"trainingTaskDefinition", "trainingTaskInputs", NULL};

/* What is in it is checked as the job's own. */
static void decode_inputs(struct smd_decoder *decoder, const struct smd_field *field,
	const struct smd_node *node, void *base)
{
	(void)field;
	(void)base;
	smd_decode_expects(decoder, node, SMD_NODE_OBJECT);
}

static json_t *describe_inputs(struct smd_schema *schema, const struct smd_field *field)
{
	(void)field;
	return json_pack("{s:[o, {s:s, s:[s, s]}]}", "anyOf",
		smd_schema_message(schema, &smd_custom_job_spec), "type", "object", "required",
		"trialJobSpec", "studySpec");
}

static const struct smd_field rows[] = {
	SMD_FIELD("displayName", smd_decode_string, SMD_KEPT, .required = 1,
		.schema = SMD_DISPLAY_NAME_SCHEMA),
	SMD_FIELD("trainingTaskDefinition", smd_decode_string, SMD_KEPT, .required = 1,
		.form = DEFINITION_FORM,
		.example = "a custom task, gs://google-cloud-aiplatform/schema/trainingjob/"
			   "definition/custom_task_1.0.0.yaml or .../"
			   "hyperparameter_tuning_task_1.0.0.yaml, because no other is run here"),
	SMD_FIELD("trainingTaskInputs", decode_inputs, SMD_KEPT, .required = 1,
		.describe = describe_inputs),
	SMD_FIELD("inputDataConfig", smd_decode_anything, SMD_KEPT,
		.note = "programs read their data where they are told by arguments"),
	SMD_FIELD("modelToUpload", smd_decode_anything, SMD_KEPT, .note = NO_MODELS),
	SMD_FIELD("modelId", smd_decode_anything, SMD_KEPT, .note = NO_MODELS),
	SMD_FIELD("parentModel", smd_decode_anything, SMD_KEPT, .note = NO_MODELS),
	SMD_FIELD("labels", smd_decode_anything, SMD_KEPT), /* checked as the job's */
	SMD_FIELD("encryptionSpec", smd_decode_anything, SMD_KEPT),
	/* What the service writes. */
	SMD_FIELD("name", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("trainingTaskMetadata", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("state", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("error", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("createTime", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("startTime", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("endTime", smd_decode_anything, SMD_KEPT),
	SMD_FIELD("updateTime", smd_decode_anything, SMD_KEPT),
};
const struct smd_message smd_training_pipeline = SMD_MESSAGE("TrainingPipeline", rows);

int smd_training_pipeline_is(const struct smd_node *document)
{
	for (size_t i = 0; smd_training_pipeline_marks[i]; i++) {
		if (smd_node_member(document, smd_training_pipeline_marks[i])) {
			return 1;
		}
	}
	return 0;
}

/* The member under another name, if there is one. */
static int copy_member(struct smd_node *job, const struct smd_node *member, const char *name)
{
	struct smd_node *copy = member ? smd_node_copy(job, member) : NULL;

	if (!member) {
		return 0;
	}
	if (copy) {
		free(copy->key);
		copy->key = strdup(name);
	}
	return copy && copy->key ? 0 : -ENOMEM;
}

/* A tuning task's inputs are the job's own members, a custom task's are its jobSpec. */
static int fill_job(struct smd_node *job, const struct smd_node *document)
{
	static const char *const shared[] = {"displayName", "labels", "encryptionSpec"};
	const struct smd_node *inputs = smd_node_member(document, "trainingTaskInputs");
	int ret = 0;

	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]) && !ret; i++) {
		ret = copy_member(job, smd_node_member(document, shared[i]), shared[i]);
	}
	if (!ret && !smd_node_member(inputs, "trialJobSpec")) {
		return copy_member(job, inputs, "jobSpec");
	}
	for (const struct smd_node *node = inputs->first; node && !ret; node = node->next) {
		ret = smd_node_copy(job, node) ? 0 : -ENOMEM;
	}
	return ret;
}

int smd_training_pipeline_convert(struct smd_conversion *conversion, struct smd_node **document)
{
	struct smd_diagnostics *diagnostics = conversion->diagnostics;
	struct smd_decoder decoder = {.diagnostics = diagnostics, .root = &smd_training_pipeline};
	struct smd_node *job;
	int ret;

	smd_decode_message(&decoder, &smd_training_pipeline, *document, NULL);
	smd_decode_finish(&decoder);
	if (decoder.ret || diagnostics->found[SMD_SEVERITY_ERROR]) {
		return decoder.ret ? decoder.ret : -EINVAL;
	}
	job = smd_node_create(NULL, NULL, SMD_NODE_OBJECT, (*document)->at);
	if (!job) {
		return -ENOMEM;
	}
	ret = fill_job(job, *document);
	ret = ret ? ret
		  : smd_message_settle(smd_tuning_job_is(job) ? &smd_tuning_job : &smd_custom_job,
			    job, diagnostics);
	if (ret) {
		smd_node_free(job);
		return ret;
	}
	smd_node_free(*document);
	*document = job;
	return 0;
}
