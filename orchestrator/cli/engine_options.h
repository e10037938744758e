/*
 * The options that say where a job runs: --engine, and what belongs to one engine alone.
 */
#ifndef SMD_CLI_ENGINE_OPTIONS_H
#define SMD_CLI_ENGINE_OPTIONS_H

#include "orchestrator/runner/local_run.h"
#include "reduction_server/base/error.h"

/* Those that are numbers, as the command line has them; -1: not given. */
struct smd_engine_numbers {
	int host_timeout_s;
	int join_timeout_s;
	int host_failures;
	int host_cool_down_s;
};

#define SMD_ENGINE_NUMBERS_NONE                                                                    \
	{                                                                                          \
		-1, -1, -1, -1                                                                     \
	}

/* The rows: `o` is a struct smd_local_run_options, `n` a struct smd_engine_numbers. */
#define SMD_ENGINE_OPTIONS(o, n)                                                                   \
	SMD_OPTION_GROUP("Hosts"),                                                                 \
		{"engine", "local|ssh|slurm",                                                      \
			"what brings replicas to hosts (default local: this one)",                 \
			smd_engine_option_set, &(o).engine},                                       \
		{"hostfile", "FILE", "the hosts of --engine=ssh, in lines HOST [slots=N]",         \
			smd_option_set_path, &(o).hostfile},                                       \
		{"ssh-command", "COMMAND",                                                         \
			"run this with a host and a shell's command line, in place of ssh",        \
			smd_option_set_path, &(o).ssh_command},                                    \
		{"copy", NULL,                                                                     \
			"copy what the job needs of this build to hosts that have no copy, in "    \
			"the user's cache",                                                        \
			smd_option_set_bool, &(o).copies_agent},                                   \
		{"slurm-partition", "NAME", "the partition of --engine=slurm",                     \
			smd_option_set_path, &(o).slurm.partition},                                \
		{"slurm-account", "NAME", "the account that the nodes are charged to",             \
			smd_option_set_path, &(o).slurm.account},                                  \
		{"slurm-constraint", "FEATURES", "what nodes must have, as sbatch's --constraint", \
			smd_option_set_path, &(o).slurm.constraint},                               \
		{"slurm-reservation", "NAME", "a reservation that has the nodes",                  \
			smd_option_set_path, &(o).slurm.reservation},                              \
		{"slurm-option", "OPTION",                                                         \
			"another one of sbatch's, such as --qos=high; "                            \
			"workerpool2:--partition=cpu for one pool; may be repeated",               \
			smd_engine_option_add_slurm, &(o).slurm},                                  \
		{"interface", "NAME|NETWORK,...",                                                  \
			"by which hosts reach each other: eth1 or 10.1.0.0/16; gradients by all "  \
			"that are named (default: the fastest networks that all are in)",          \
			smd_option_set_path, &(o).interface},                                      \
		{"host-timeout", "SECONDS", "a host is lost after so long a silence (default 15)", \
			smd_option_set_int, &(n).host_timeout_s},                                  \
		{"host-failures", "N",                                                             \
			"failures in a row after which a host of --engine=ssh is left out where "  \
			"there are others, 0: never (default 0; of a service 3)",                  \
			smd_option_set_int, &(n).host_failures},                                   \
		{"host-cool-down", "SECONDS", "how long it is (default 600)",                      \
			smd_option_set_int, &(n).host_cool_down_s},                                \
	{                                                                                          \
		"join-timeout", "SECONDS",                                                         \
			"how long the agents of all hosts may take to come (default 120)",         \
			smd_option_set_int, &(n).join_timeout_s                                    \
	}

/* --engine: the target is an enum smd_local_run_engine. 0 or -EINVAL with a text. */
int smd_engine_option_set(void *target, const char *value, struct smd_error *error);

/* --slurm-option, a word of sbatch's command line or of the part of it that is for one pool: the
 * target is a struct smd_slurm_options, which borrows the value. 0 or -EINVAL with a text. */
int smd_engine_option_add_slurm(void *target, const char *value, struct smd_error *error);

/* Takes the numbers into the options, or their defaults. */
void smd_engine_numbers_take(
	struct smd_local_run_options *options, const struct smd_engine_numbers *numbers);

/* The first of the options that was given, without its dashes; NULL: none was. */
const char *smd_engine_options_given(
	const struct smd_local_run_options *options, const struct smd_engine_numbers *numbers);

/* Before anything is made: what an engine needs is there, and nothing of another one. Reads the
 * file of hosts, which the caller closes. 0, or -1 when the reason has been printed. */
int smd_engine_options_check(struct smd_local_run_options *options);

#define SMD_ENGINE_WORDS_MAX (18 + SMD_SLURM_OPTIONS_MAX)

/* The same options as words of a command line, for another process; the caller frees each. How many
 * there are, or -ENOMEM. */
int smd_engine_options_write(
	const struct smd_local_run_options *options, char *words[SMD_ENGINE_WORDS_MAX]);

#endif
