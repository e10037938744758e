/* Looks whether servers were added. */
#include "worker/libsummand/server_file.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/log.h"

#define LENGTH_MAX 65536

static void refuse(struct smd_server_file *file, const char *rule, const char *got)
{
	smd_log(file->told ? SMD_LOG_DEBUG : SMD_LOG_WARN, "config",
		"SUMMAND_SERVERS_FILE: %s: %s, got \"%.200s\"; servers that are added are not used",
		file->config->servers_file, rule, got);
	file->told = true;
}

/* The last line that is not empty; NULL: there is none. It points into `text`. */
static char *find_last_line(char *text)
{
	char *last = NULL;
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		last = line;
	}
	return last;
}

/* Those of the configuration come first, so that all ranks count alike. */
static void take_line(struct smd_server_file *file, char *line)
{
	struct smd_config *config = file->config;
	char *rest = NULL;
	unsigned n = 0;

	for (char *server = strtok_r(line, ",", &rest); server;
		server = strtok_r(NULL, ",", &rest), n++) {
		if (n < config->nservers) {
			if (strcmp(server, config->servers[n]) != 0) {
				refuse(file, "must go on to name the servers that it has named",
					server);
				return;
			}
			continue;
		}
		if (n == SMD_SERVERS_MAX || !smd_config_is_server(config, server)) {
			refuse(file, "must have at most 64 servers, each host:port", server);
			return;
		}
		config->servers[n] = strdup(server);
		if (config->servers[n]) {
			file->add(file->owner, config->servers[n]);
		}
		if (config->nservers == n) { /* out of memory: the next look may have some */
			free(config->servers[n]);
			config->servers[n] = NULL;
			file->seen = (struct stat){.st_ino = 0};
			return;
		}
	}
}

static bool has_changed(struct smd_server_file *file, const struct stat *now)
{
	const struct stat *seen = &file->seen;

	return now->st_ino != seen->st_ino || now->st_size != seen->st_size ||
	       now->st_mtim.tv_sec != seen->st_mtim.tv_sec ||
	       now->st_mtim.tv_nsec != seen->st_mtim.tv_nsec;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct smd_server_file *file = arg;
	struct stat now;
	char *text;
	FILE *stream;
	char *line;

	(void)fd;
	(void)what;
	if (stat(file->config->servers_file, &now) != 0 || !has_changed(file, &now) ||
		!S_ISREG(now.st_mode) || now.st_size > LENGTH_MAX) {
		return;
	}
	stream = fopen(file->config->servers_file, "re");
	text = calloc(1, LENGTH_MAX + 1);
	if (stream && text && fread(text, 1, LENGTH_MAX, stream) > 0) {
		file->seen = now;
		line = find_last_line(text);
		if (line) {
			take_line(file, line);
		}
	}
	free(text);
	if (stream) {
		fclose(stream);
	}
}

void smd_server_file_watch(struct smd_server_file *file, struct smd_config *config,
	struct event_base *base, smd_server_file_add *add, void *owner)
{
	const struct timeval second = {1, 0};

	if (!config->servers_file) {
		return;
	}
	*file = (struct smd_server_file){.config = config, .add = add, .owner = owner};
	file->timer = event_new(base, -1, EV_PERSIST, on_timer, file);
	if (file->timer) {
		(void)event_add(file->timer, &second);
	}
}

void smd_server_file_end(struct smd_server_file *file)
{
	if (file->timer) {
		event_free(file->timer);
	}
}
