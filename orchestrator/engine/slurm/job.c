/* Reads what scontrol says of a job. */
#include "orchestrator/engine/slurm/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* States in which Slurm has not given up the job, and in which it has no more hosts. */
static const struct {
	const char *state;
	enum smd_slurm_phase phase;
} states[] = {
	{"PENDING", SMD_SLURM_WAITING},
	{"CONFIGURING", SMD_SLURM_WAITING},
	{"REQUEUED", SMD_SLURM_WAITING},
	{"REQUEUE_HOLD", SMD_SLURM_WAITING},
	{"REQUEUE_FED", SMD_SLURM_WAITING},
	{"SPECIAL_EXIT", SMD_SLURM_WAITING},
	{"RESV_DEL_HOLD", SMD_SLURM_WAITING},
	{"RUNNING", SMD_SLURM_RUNNING},
	{"SUSPENDED", SMD_SLURM_RUNNING},
	{"STOPPED", SMD_SLURM_RUNNING},
	{"RESIZING", SMD_SLURM_RUNNING},
	{"SIGNALING", SMD_SLURM_RUNNING},
	{"COMPLETING", SMD_SLURM_GOING},
	{"STAGE_OUT", SMD_SLURM_GOING},
};

static enum smd_slurm_phase phase_of(const char *state)
{
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (strcmp(state, states[i].state) == 0) {
			return states[i].phase;
		}
	}
	return SMD_SLURM_OVER;
}

/* The value of a field of one line; NULL: there is none. Ends it when all have been found. */
static char *find(char *line, const char *name)
{
	size_t length = strlen(name);

	for (char *at = line; (at = strstr(at, name)); at += length) {
		if ((at == line || at[-1] == ' ') && at[length] == '=') {
			return at + length + 1;
		}
	}
	return NULL;
}

static const char *text_or(char *value, const char *otherwise)
{
	return value && *value && *value != ' ' && strncmp(value, "(null)", 6) != 0 ? value
										    : otherwise;
}

static int number_or(const char *value, int otherwise)
{
	return value ? atoi(value) : otherwise;
}

static void end_words(char *line)
{
	for (char *at = line; (at = strchr(at, ' ')); at++) {
		*at = '\0';
	}
}

/* Takes the prefix from each word of the list, which --gres does not want. */
static void strip_gres(char *list)
{
	char *to = list;
	int begins = 1;

	while (*list) {
		if (begins && (strncmp(list, "gres:", 5) == 0 || strncmp(list, "gres/", 5) == 0)) {
			list += 5;
		}
		begins = *list == ',';
		*to = *list;
		to += *list != '\0';
		list += *list != '\0';
	}
	*to = '\0';
}

static int parse_line(struct smd_slurm_component *component, char *line)
{
	char *state = find(line, "JobState");
	char *reason = find(line, "Reason");
	char *gres = find(line, "TresPerNode"); /* "gres/gpu:1,gres/nic:2"; before 23.11 "gres:" */
	const char *preempted = text_or(find(line, "PreemptTime"), "None");

	if (!state) {
		return -EPROTO;
	}
	*component = (struct smd_slurm_component){
		.offset = number_or(find(line, "HetJobOffset"), 0),
		.state = state,
		.reason = text_or(reason && strncmp(reason, "None", 4) == 0 ? NULL : reason, ""),
		.nodes = text_or(find(line, "NodeList"), ""),
		.gres = text_or(gres, ""),
		.partition = text_or(find(line, "Partition"), ""),
		.nnodes = number_or(find(line, "NumNodes"), 0),
		.ntasks = number_or(find(line, "NumTasks"), 0),
		.restarts = number_or(find(line, "Restarts"), 0),
		.is_preempted = strncmp(preempted, "None", 4) != 0};
	end_words(line);
	if (gres) {
		strip_gres(gres);
	}
	return 0;
}

static int by_offset(const void *left, const void *right)
{
	const struct smd_slurm_component *one = left;
	const struct smd_slurm_component *other = right;

	return (one->offset > other->offset) - (one->offset < other->offset);
}

int smd_slurm_job_parse(struct smd_slurm_job *job, char *text)
{
	char *rest = text;
	char *line;

	*job = (struct smd_slurm_job){.count = 0};
	while ((line = strsep(&rest, "\n"))) {
		struct smd_slurm_component *grown;
		int ret;

		if (!*line) {
			continue;
		}
		grown = realloc(job->components, (job->count + 1) * sizeof(*grown));
		if (!grown) {
			smd_slurm_job_clear(job);
			return -ENOMEM;
		}
		job->components = grown;
		job->is_heterogeneous |= find(line, "HetJobOffset") != NULL;
		ret = parse_line(&grown[job->count++], line);
		if (ret) {
			smd_slurm_job_clear(job);
			return ret;
		}
	}
	if (job->count == 0) {
		return -EPROTO;
	}
	qsort(job->components, job->count, sizeof(*job->components), by_offset);
	return 0;
}

void smd_slurm_job_clear(struct smd_slurm_job *job)
{
	free(job->components);
	*job = (struct smd_slurm_job){.count = 0};
}

/* The hosts are there when all components have theirs, and are lost when one has none any more.
 * It is over when all are. */
enum smd_slurm_phase smd_slurm_job_phase(const struct smd_slurm_job *job)
{
	int counts[SMD_SLURM_OVER + 1] = {0};

	for (size_t i = 0; i < job->count; i++) {
		counts[phase_of(job->components[i].state)]++;
	}
	if (counts[SMD_SLURM_GOING] > 0 ||
		(counts[SMD_SLURM_OVER] > 0 && counts[SMD_SLURM_OVER] < (int)job->count)) {
		return SMD_SLURM_GOING;
	}
	if (counts[SMD_SLURM_WAITING] > 0) {
		return SMD_SLURM_WAITING;
	}
	return counts[SMD_SLURM_OVER] > 0 ? SMD_SLURM_OVER : SMD_SLURM_RUNNING;
}

const struct smd_slurm_component *smd_slurm_job_speaker(const struct smd_slurm_job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		if (phase_of(job->components[i].state) != SMD_SLURM_RUNNING &&
			job->components[i].reason[0]) {
			return &job->components[i];
		}
	}
	return &job->components[0];
}
