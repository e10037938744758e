/* Tells the runner what becomes of its hosts, and asks Slurm. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orchestrator/contract/environment.h"
#include "orchestrator/engine/slurm/holding.h"
#include "reduction_server/base/clock.h"

void smd_slurm_report(struct slurm_engine *slurm, const struct smd_engine_event *event)
{
	slurm->engine.take_event(slurm->engine.arg, event);
}

void smd_slurm_fail(struct slurm_engine *slurm, int is_final, const char *format, ...)
{
	char text[SMD_SLURM_TEXT_MAX];
	va_list values;

	if (slurm->has_failed || slurm->released_ns) {
		return;
	}
	slurm->has_failed = 1;
	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	smd_slurm_report(
		slurm, &(struct smd_engine_event){
			       .kind = SMD_ENGINE_FAILED, .text = text, .is_final = is_final});
}

void smd_slurm_say_pending(struct slurm_engine *slurm, const char *format, ...)
{
	char text[SMD_SLURM_TEXT_MAX];
	va_list values;

	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	if (strcmp(text, slurm->why) != 0 && !slurm->released_ns) {
		snprintf(slurm->why, sizeof(slurm->why), "%s", text);
		smd_slurm_report(slurm,
			&(struct smd_engine_event){.kind = SMD_ENGINE_PENDING, .text = text});
	}
}

void smd_slurm_lose(struct slurm_engine *slurm, struct smd_slurm_host *host, const char *text)
{
	if (host->is_lost || slurm->released_ns || slurm->has_failed) {
		return;
	}
	host->is_lost = 1;
	smd_slurm_report(slurm, &(struct smd_engine_event){.kind = SMD_ENGINE_LOST,
					.number = (int)(host - slurm->hosts),
					.text = text});
}

/* One line of what a command says: "sbatch: error: " tells nobody anything who reads "Slurm: "
 * before it. */
const char *smd_slurm_plain(const char *words)
{
	static const char *const prefixes[] = {"sbatch: error: ", "slurm_load_jobs error: ",
		"scontrol: error: ", "scancel: error: "};
	static char line[SMD_SLURM_TEXT_MAX];
	size_t used = 0;

	line[0] = '\0';
	while (*words && used < sizeof(line) - 1) {
		size_t length = strcspn(words, "\r\n");
		const char *end = words + length;

		for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
			if (strncmp(words, prefixes[i], strlen(prefixes[i])) == 0) {
				words += strlen(prefixes[i]);
			}
		}
		if (end > words) {
			used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%.*s",
				used ? "; " : "", (int)(end - words), words);
		}
		words = end + strspn(end, "\r\n");
	}
	return line;
}

/* Takes over the words of its command line. */
void smd_slurm_ask(
	struct slurm_engine *slurm, char **argv, const char *input, smd_slurm_answer_fn *take)
{
	const struct smd_slurm_command_options options = {.base = slurm->engine.base,
		.argv = argv,
		.environment = slurm->environment,
		.input = input,
		.on_end = take,
		.owner = slurm};
	int ret;

	slurm->asked_ns = smd_clock_ns();
	ret = argv ? smd_slurm_command_start(&slurm->asking, &options) : -ENOMEM;

	if (ret) {
		slurm->asking = NULL;
		smd_slurm_fail(slurm, 1, "Slurm: %s cannot be started: %s",
			argv ? argv[0] : "a command", strerror(-ret));
	}
	smd_argv_free(argv);
}

char **smd_slurm_words_of(const char *first, ...)
{
	char **argv = calloc(16, sizeof(*argv));
	size_t count = 0;
	va_list values;

	va_start(values, first);
	for (const char *word = first; argv && word; word = va_arg(values, const char *)) {
		argv[count] = strdup(word);
		if (!argv[count++]) {
			smd_argv_free(argv);
			argv = NULL;
		}
	}
	va_end(values);
	return argv;
}
