/*
 * A batch script of Slurm: a component of one heterogeneous job for each worker pool.
 *
 * Hosts and ports are known only when the job runs. So the placement has names of them, and the
 * script puts what they stand for in their places: @workerpool1-0.host@. Numbers that differ
 * between processes stand as terms of i (the replica), p (the process) and m (MASTER_PORT): @i+1@.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/caller.h"
#include "orchestrator/export/slurm_script.h"
#include "orchestrator/export/target.h"

#define MASTER_PORT     29500 /* any: it stands for the one of the run */
#define GRACE_S         30
#define READY_TIMEOUT_S 120
#define TERM_LETTERS    "ipm"
#define TERM_CHARACTERS "0123456789*+-" TERM_LETTERS
#define MINUTE_S        60
#define HOUR_S          3600
#define DAY_S           86400

static char *endpoint_of(const struct smd_export *export, int pool, int index)
{
	char *text;

	(void)export;
	return asprintf(&text, "@workerpool%d-%d.host@:@workerpool%d-%d.port@", pool, index, pool,
		       index) < 0
		       ? NULL
		       : text;
}

static int place(const struct smd_export *export, struct smd_placement *out)
{
	int ret = smd_export_place(export, endpoint_of, out);

	if (ret) {
		return ret;
	}
	out->master_port = MASTER_PORT;
	if (asprintf(&out->job_id, "%s-@slurm_job@", export->job->id) < 0) {
		out->job_id = NULL;
	}
	out->output_dir = strdup("@output_dir@");
	out->token_file = smd_export_has_servers(export->job) ? strdup("@token_file@") : NULL;
	if (!out->job_id || !out->output_dir ||
		(smd_export_has_servers(export->job) && !out->token_file)) {
		smd_placement_free(out);
		return -ENOMEM;
	}
	return 0;
}

/* A spec's own text that the script would take for a term. */
static int has_term(const char *text)
{
	for (const char *at = strchr(text, '@'); at; at = strchr(at + 1, '@')) {
		size_t length = strspn(at + 1, TERM_CHARACTERS);

		if (at[length + 1] == '@' && strcspn(at + 1, TERM_LETTERS) < length) {
			return 1;
		}
	}
	return 0;
}

static void print_term(const struct smd_text_part *part, FILE *out)
{
	const struct {
		int64_t factor;
		char letter;
	} factors[] = {
		{part->replica_factor, 'i'},
		{part->process_factor, 'p'},
		{part->has_port, 'm'},
	};
	const char *plus = "";

	fputc('@', out);
	for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
		if (factors[i].factor == 0) {
			continue;
		}
		fputs(factors[i].factor < 0 ? "" : plus, out);
		if (factors[i].factor != 1) {
			fprintf(out, "%" PRId64 "*", factors[i].factor);
		}
		fputc(factors[i].letter, out);
		plus = "+";
	}
	if (part->constant != 0) {
		fprintf(out, "%s%" PRId64, part->constant < 0 ? "" : plus, part->constant);
	}
	fputc('@', out);
}

/* Prints NAME=TEXT, or the text alone, as a word of bash. */
static int print_text(const char *name, const struct smd_text *text, FILE *out)
{
	char *word = NULL;
	size_t length;
	FILE *joined = open_memstream(&word, &length);
	int ret = joined ? 0 : -ENOMEM;

	if (joined && name) {
		fprintf(joined, "%s=", name);
	}
	for (size_t i = 0; i < text->count && !ret; i++) {
		if (!text->parts[i].literal) {
			print_term(&text->parts[i], joined);
		} else if (has_term(text->parts[i].literal)) {
			ret = -ENOTSUP;
		} else {
			fputs(text->parts[i].literal, joined);
		}
	}
	if (joined && fclose(joined) && !ret) {
		ret = -ENOMEM;
	}
	if (!ret) {
		smd_shell_quote(word, out);
	}
	free(word);
	return ret;
}

static int print_pool(const struct smd_export *export, const struct smd_placement *placement,
	const struct smd_placement *listening, int pool, FILE *out, struct smd_error *error)
{
	struct smd_pool_texts texts;
	int ret = smd_pool_texts_create(export->job, placement, listening, pool, &texts, error);

	if (ret) {
		return ret;
	}
	fprintf(out, "\nworkerpool%d() {\n\tvariables=(\n", pool);
	for (size_t i = 0; i < texts.nvariables && !ret; i++) {
		fputs("\t\t", out);
		ret = print_text(texts.variables[i].name, &texts.variables[i].text, out);
		fputc('\n', out);
	}
	fputs("\t)\n\tcommand=(", out);
	for (size_t i = 0; i < texts.nwords && !ret; i++) {
		fputs(i ? " " : "", out);
		ret = print_text(NULL, &texts.words[i], out);
	}
	fputs(")\n}\n", out);
	smd_pool_texts_free(&texts);
	return ret == -ENOTSUP ? smd_error_set(error, ENOTSUP,
					 "workerpool%d: env, command, args: must have no text that "
					 "the script would compute, such as @i+1@",
					 pool)
			       : ret;
}

/* "--OPTION", or for one pool "workerpool2:--OPTION". */
static void print_directives(const struct smd_export_options *options, int pool, FILE *out)
{
	static const char prefix[] = "workerpool";

	for (size_t i = 0; i < options->ndirectives; i++) {
		const char *directive = options->directives[i];
		size_t length = sizeof(prefix) - 1;

		if (strncmp(directive, prefix, length) == 0 &&
			isdigit((unsigned char)directive[length]) && directive[length + 1] == ':') {
			if (directive[length] - '0' != pool) {
				continue;
			}
			directive += length + 2;
		}
		fprintf(out, "#SBATCH %s\n", directive);
	}
}

/* Days, hours, minutes and seconds, as sbatch reads a time; 0: no limit. */
static void print_time(int64_t seconds, FILE *out)
{
	if (seconds <= 0) {
		fputs("UNLIMITED", out);
		return;
	}
	fprintf(out, "%" PRId64 "-%02d:%02d:%02d", seconds / DAY_S, (int)(seconds % DAY_S / HOUR_S),
		(int)(seconds % HOUR_S / MINUTE_S), (int)(seconds % MINUTE_S));
}

static void print_component(struct smd_export *export, int pool, FILE *out)
{
	const struct smd_job *job = export->job;
	const struct smd_job_pool *spec = &job->pools[pool];
	int processes = smd_job_processes(job, pool);
	struct smd_machine machine;

	fprintf(out, "# workerpool%d: %s%s%s\n", pool, smd_role_name(spec->role),
		spec->machine_type ? ", " : "", spec->machine_type ? spec->machine_type : "");
	fprintf(out, "#SBATCH --nodes=%d --ntasks-per-node=%d\n", spec->replica_count, processes);
	if (smd_export_machine(export, pool, "CPUs and memory of its nodes are", &machine) == 0) {
		int cpus = machine.vcpu / processes;

		fprintf(out, "#SBATCH --cpus-per-task=%d --mem=%.0fM\n", cpus > 0 ? cpus : 1,
			machine.memory_gb * 1024);
	}
	if (spec->accelerator_count > 0) {
		fprintf(out, "#SBATCH --gres=gpu:%d\n", spec->accelerator_count);
	}
	if (job->timeout_s != SMD_JOB_TIMEOUT_DEFAULT_S) { /* else the partition's own limit */
		fputs("#SBATCH --time=", out);
		print_time(job->timeout_s, out);
		fputc('\n', out);
	}
	print_directives(export->options, pool, out);
}

static void print_components(struct smd_export *export, FILE *out)
{
	const char *between = "";

	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		if (export->job->pools[pool].replica_count > 0) {
			fputs(between, out);
			print_component(export, pool, out);
			between = "#SBATCH hetjob\n";
		}
	}
}

static void print_array(const char *name, const struct smd_job *job,
	int (*number)(const struct smd_job *job, int pool), FILE *out)
{
	const char *between = "";

	fprintf(out, "%s=(", name);
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		if (job->pools[pool].replica_count > 0) {
			fprintf(out, "%s[%d]=%d", between, pool, number(job, pool));
			between = " ";
		}
	}
	fputs(")\n", out);
}

static int replicas_of(const struct smd_job *job, int pool)
{
	return job->pools[pool].replica_count;
}

static void print_settings(const struct smd_export *export, FILE *out)
{
	const struct smd_job *job = export->job;
	int has_workers = job->pools[1].replica_count > 0;

	fputs("\nset -uo pipefail\njob=", out);
	smd_shell_quote(export->name, out);
	fputs("\npools=(", out);
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX; pool++) {
		if (job->pools[pool].replica_count > 0) {
			fprintf(out, "%s%d", pool ? " " : "", pool);
		}
	}
	fputs(")\n", out);
	print_array("replicas", job, replicas_of, out);
	print_array("processes", job, smd_job_processes, out);
	fprintf(out, "servers=%s # worker pool 2 is reduction servers\n",
		smd_export_has_servers(job) ? "yes" : "no");
	fprintf(out, "success=(0%s) # whose success is the job's\n",
		job->success_policy == SMD_SUCCESS_ALL_WORKERS && has_workers ? " 1" : "");
	fprintf(out, "has_output=%s # to ${SUMMAND_OUTPUT_DIR}\n", job->output_uri ? "yes" : "no");
	fprintf(out, "grace=${SUMMAND_GRACE:-%d}\nready_timeout=${SUMMAND_READY_TIMEOUT:-%d}\n",
		GRACE_S, READY_TIMEOUT_S);
}

static int note_all(struct smd_export *export)
{
	const struct smd_job *job = export->job;
	int ret = smd_export_note_omissions(export, place);

	if (!ret && job->output_uri) {
		ret = smd_export_note(export,
			"%s: a directory that all nodes share stands in for it: "
			"SUMMAND_OUTPUT_DIR, or one beside the logs",
			job->output_uri);
	}
	if (!ret && ((job->max_restarts > 0 && job->restart_policy != SMD_RESTART_NEVER) ||
			    job->budgets.count > 0)) {
		ret = smd_export_note(export, "restarts after a failure: the script makes one "
					      "attempt; Slurm requeues it only "
					      "when a node fails");
	}
	if (!ret && smd_export_has_servers(job)) {
		ret = smd_export_note(export,
			"summand-reduction-server and, on workers, libsummand must be installed on "
			"the nodes");
	}
	return ret;
}

static void print_head(const struct smd_export *export, FILE *out)
{
	const struct smd_job *job = export->job;

	fprintf(out,
		"#!/bin/bash\n"
		"# %s: %d replicas in worker pools, exported by summand " SUMMAND_VERSION
		" for Slurm. Run it with sbatch.\n"
		"#\n"
		"# SUMMAND_OUTPUT_DIR, SUMMAND_PORT_BASE (100 ports from there), SUMMAND_GRACE "
		"and\n"
		"# SUMMAND_READY_TIMEOUT (seconds) in its environment change what they name.\n",
		export->name, smd_job_replica_count(job));
	smd_export_print_notes(export, out);
	fprintf(out, "#\n#SBATCH --job-name=%s\n#SBATCH --%s\n", export->name,
		job->disable_retries ? "no-requeue" : "requeue");
	if (job->code_dir) {
		fputs("#SBATCH --chdir=", out);
		smd_shell_quote(job->code_dir, out);
		fputc('\n', out);
	}
}

static int print_pools(const struct smd_export *export, FILE *out, struct smd_error *error)
{
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
	fputs("\n# What each process of a worker pool gets. Between @ stands what is known only "
	      "where it runs: hosts and\n"
	      "# ports, and terms of i (its replica), p (its number there) and m (MASTER_PORT).\n",
		out);
	for (int pool = 0; pool < SMD_JOB_POOLS_MAX && !ret; pool++) {
		if (export->job->pools[pool].replica_count > 0) {
			ret = print_pool(export, &placement, &listening, pool, out, error);
		}
	}
	smd_placement_free(&listening);
	smd_placement_free(&placement);
	return ret;
}

/* What the head says is known when the rest is written. */
static int print_all(struct smd_export *export, FILE *out, struct smd_error *error)
{
	char *components = NULL;
	size_t length;
	FILE *file = open_memstream(&components, &length);
	int ret = file ? note_all(export) : -ENOMEM;

	if (!file) {
		return ret;
	}
	print_components(export, file);
	ret = fclose(file) && !ret ? -ENOMEM : ret;
	if (!ret) {
		print_head(export, out);
		fputs(components, out);
		print_settings(export, out);
		ret = print_pools(export, out, error);
	}
	if (!ret) {
		fputs("\n# Whether a variable tells whose process its caller is, which is another "
		      "one here.\n"
		      "withheld() {\n",
			out);
		smd_caller_print_case(smd_export_has_servers(export->job), out);
		fputs("}\n", out);
		fputs(smd_slurm_script, out);
	}
	free(components);
	return ret;
}

int smd_export_slurm(struct smd_export *export, struct smd_error *error)
{
	const char *code_dir = export->job->code_dir;
	size_t length;
	FILE *out;
	int ret;

	if (code_dir && strpbrk(code_dir, "\n\r")) {
		return smd_error_set(error, ENOTSUP,
			"code: must be a path of one line for Slurm, got %s", code_dir);
	}
	out = open_memstream(&export->text, &length);
	ret = out ? print_all(export, out, error) : -ENOMEM;

	if (out && fclose(out) && !ret) {
		ret = -ENOMEM;
	}
	return ret;
}
