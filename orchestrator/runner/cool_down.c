/* Remembers hosts on which replicas fail. */
#include "orchestrator/runner/cool_down.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "orchestrator/store/host_failures.h"
#include "reduction_server/base/log.h"

#define TIME_SIZE 32

static int is_off(const struct smd_cool_down *cool_down)
{
	return !cool_down->state_dir || cool_down->failures == 0;
}

static void warn(const struct smd_error *error)
{
	smd_log(SMD_LOG_WARN, "runner", "hosts that fail are not remembered: %s", error->text);
}

static int take(void *arg, const char *host, unsigned in_a_row, int64_t last_s)
{
	struct smd_cool_down *cool_down = arg;
	void *hosts = realloc(cool_down->hosts, (cool_down->count + 1) * sizeof(*cool_down->hosts));
	char *name = strdup(host);

	if (hosts) {
		cool_down->hosts = hosts;
	}
	if (!hosts || !name) {
		free(name);
		return -ENOMEM;
	}
	cool_down->hosts[cool_down->count++] = (struct smd_cooling_host){
		.name = name, .in_a_row = in_a_row, .until_s = last_s + cool_down->lasts_s};
	return 0;
}

void smd_cool_down_read(struct smd_cool_down *cool_down)
{
	struct smd_error error = {""};

	smd_cool_down_clear(cool_down);
	if (!is_off(cool_down) &&
		smd_host_failures_each(cool_down->state_dir, cool_down->failures,
			(int64_t)time(NULL) - cool_down->lasts_s, take, cool_down, &error)) {
		warn(&error);
		smd_cool_down_clear(cool_down);
	}
}

void smd_cool_down_clear(struct smd_cool_down *cool_down)
{
	for (size_t i = 0; i < cool_down->count; i++) {
		free(cool_down->hosts[i].name);
	}
	free(cool_down->hosts);
	cool_down->hosts = NULL;
	cool_down->count = 0;
}

int smd_cool_down_has(void *arg, const char *name)
{
	struct smd_cool_down *cool_down = arg;

	for (size_t i = 0; i < cool_down->count; i++) {
		if (strcmp(cool_down->hosts[i].name, name) == 0) {
			cool_down->hosts[i].is_asked_for = 1;
			return 1;
		}
	}
	return 0;
}

char *smd_cool_down_write(const struct smd_cool_down *cool_down)
{
	size_t length;
	char *text = NULL;
	const char *comma = "";
	FILE *out = open_memstream(&text, &length);

	for (size_t i = 0; out && i < cool_down->count; i++) {
		const struct smd_cooling_host *host = &cool_down->hosts[i];
		time_t until = (time_t)host->until_s;
		char time[TIME_SIZE];
		struct tm parts;

		if (host->is_asked_for && gmtime_r(&until, &parts)) {
			strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S UTC", &parts);
			fprintf(out, "%s%s (%u failures in a row, until %s)", comma, host->name,
				host->in_a_row, time);
			comma = ", ";
		}
	}
	if (out && fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

int smd_cool_down_blame(const struct smd_cool_down *cool_down, const char *name, int is_lost)
{
	struct smd_error error = {""};
	unsigned in_a_row = 0;

	if (is_off(cool_down)) {
		return 0;
	}
	if (smd_host_failures_add(cool_down->state_dir, name, is_lost ? cool_down->failures : 1,
		    &in_a_row, &error)) {
		warn(&error);
	}
	return in_a_row >= cool_down->failures;
}

void smd_cool_down_praise(
	const struct smd_cool_down *cool_down, const char *const *names, size_t count)
{
	struct smd_error error = {""};

	if (!is_off(cool_down) && count > 0 &&
		smd_host_failures_forget(cool_down->state_dir, names, count, &error)) {
		warn(&error);
	}
}
