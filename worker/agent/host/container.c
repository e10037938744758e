/* Builds the command lines of container runtimes. */
#include "worker/agent/host/container.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "orchestrator/job/secret.h"
#include "reduction_server/base/options.h"
#include "worker/agent/host/words.h"

#define FIXED_WORDS_MAX    24 /* beside variables and the command */
#define SHARED_FOLDER_MODE 0770
#define SHARED_FILE_MODE   0640

static const struct smd_container_runtime runtimes[] = {
	{"podman", "--preserve-fds=1", "--device=nvidia.com/gpu=all", "podman rm --force --ignore",
		1, 0, 0},
	{"docker", NULL, "--gpus=all", "docker rm --force", 0, 0, 0},
	{"apptainer", NULL, "--nv", NULL, 0, 1, 0},
	{"pyxis", NULL, NULL, NULL, 0, 0, 1},
};

#define RUNTIMES (sizeof(runtimes) / sizeof(runtimes[0]))

const struct smd_container_runtime *smd_container_runtime_find(const char *name)
{
	for (size_t i = 0; i < RUNTIMES; i++) {
		if (strcmp(runtimes[i].name, name) == 0) {
			return &runtimes[i];
		}
	}
	return NULL;
}

const char *smd_container_runtime_suggest(const char *name)
{
	const char *names[RUNTIMES];

	for (size_t i = 0; i < RUNTIMES; i++) {
		names[i] = runtimes[i].name;
	}
	return smd_suggest(name, names, RUNTIMES);
}

int smd_container_runtime_is_installed(const struct smd_container_runtime *runtime)
{
	const char *path = getenv("PATH");
	int found = 0;

	while (path && !found) {
		size_t length = strcspn(path, ":");
		struct stat status;
		char *program;

		if (asprintf(&program, "%.*s%s/%s", (int)length, path, length ? "" : ".",
			    runtime->name) < 0) {
			return 0;
		}
		found = stat(program, &status) == 0 && S_ISREG(status.st_mode) &&
			access(program, X_OK) == 0;
		free(program);
		path = path[length] ? path + length + 1 : NULL;
	}
	return found;
}

static int sees_gpus(const struct smd_launch *launch)
{
	const char *gpus = smd_environment_get(launch->environment, "CUDA_VISIBLE_DEVICES");

	return gpus && *gpus;
}

/* apptainer: its own variables and descriptors are the container's. */
static void add_inheriting(struct smd_words *words, const struct smd_container_runtime *runtime,
	const struct smd_launch *launch)
{
	int is_place =
		launch->image[0] == '/' || launch->image[0] == '.' || strstr(launch->image, "://");

	smd_words_add(words, "%s", runtime->name);
	smd_words_add(words, "%s", launch->has_command ? "exec" : "run");
	for (size_t i = 0; i < launch->nmounts; i++) {
		const struct smd_mount *mount = &launch->mounts[i];

		if (mount->writable) {
			smd_words_add(words, "--bind=%s", mount->path);
		} else {
			smd_words_add(words, "--bind=%s:%s:ro", mount->path, mount->path);
		}
	}
	if (launch->directory) {
		smd_words_add(words, "--pwd=%s", launch->directory);
	}
	if (sees_gpus(launch)) {
		smd_words_add(words, "%s", runtime->gpus);
	}
	smd_words_add(words, "%s%s", is_place ? "" : "docker://", launch->image);
	for (char *const *word = launch->argv; *word; word++) {
		smd_words_add(words, "%s", *word);
	}
}

/* What a container runtime takes its own settings from: a container's PATH or HOME must not become
 * its own. Values that are secrets are kept from the command line all the same. */
static int is_setting_of_runtime(const char *name)
{
	static const char *const exact[] = {"HOME", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER",
		"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "NOTIFY_SOCKET",
		"REGISTRY_AUTH_FILE", "SUMMAND_NOTIFY_FD"};
	static const char *const beginnings[] = {"BUILDAH_", "CONTAINER", "CONMON", "DBUS_",
		"DOCKER_", "LD_", "LISTEN_", "NETAVARK", "PODMAN_", "SSH_", "SSL_CERT_", "STORAGE_",
		"XDG_"};

	if (smd_secret_is_name(name)) {
		return 0;
	}
	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
		if (strcmp(name, exact[i]) == 0) {
			return 1;
		}
	}
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
		if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0) {
			return 1;
		}
	}
	return 0;
}

int smd_container_environment(const struct smd_container_runtime *runtime,
	const struct smd_launch *launch, struct smd_environment *out)
{
	const struct smd_environment *all = launch->environment;
	struct smd_environment named = {0};

	named.variables = calloc(all->count + 1, sizeof(*named.variables));
	if (!named.variables) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < all->count; i++) {
		if (runtime->inherits_environment ||
			!is_setting_of_runtime(all->variables[i].name)) {
			named.variables[named.count++] = all->variables[i];
		}
	}
	*out = named;
	return 0;
}

static void add_variables(struct smd_words *words, const struct smd_container_runtime *runtime,
	const struct smd_launch *launch)
{
	const struct smd_environment *environment = launch->environment;

	for (size_t i = 0; i < environment->count; i++) {
		const struct smd_variable *variable = &environment->variables[i];

		if (is_setting_of_runtime(variable->name)) {
			smd_words_add(words, "--env=%s=%s", variable->name, variable->value);
		} else {
			smd_words_add(words, "--env=%s", variable->name);
		}
	}
	if (runtime->preserve_fd) {
		smd_words_add(words, "%s", runtime->preserve_fd);
		smd_words_add(words, "--env=SUMMAND_NOTIFY_FD=%d", SMD_NOTIFY_FD);
	}
}

/* A container's user who is not root gets at the mounts by their group, which is this process's. */
static unsigned group_of_mounts(const struct smd_container_runtime *runtime)
{
	return runtime->maps_root && geteuid() != 0 ? 0 : getegid();
}

static int share_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	int ret = 0;

	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, &status) ||
		fchmod(fd, S_ISDIR(status.st_mode) ? SHARED_FOLDER_MODE : SHARED_FILE_MODE)) {
		ret = -errno;
	}
	close(fd);
	return ret;
}

int smd_container_share(const char *folder, const struct smd_launch *launch)
{
	size_t length = strlen(folder);
	int ret = 0;

	for (size_t i = 0; i < launch->nmounts && !ret; i++) {
		const char *path = launch->mounts[i].path;

		if (strncmp(path, folder, length) == 0 && path[length] == '/') {
			ret = share_path(path);
		}
	}
	return ret;
}

static void add_isolated(struct smd_words *words, const struct smd_container_runtime *runtime,
	const struct smd_launch *launch)
{
	char *const *word = launch->argv;

	smd_words_add(words, "%s", runtime->name);
	smd_words_add(words, "run");
	smd_words_add(words, "--rm");
	smd_words_add(words, "--name=%s", launch->name);
	smd_words_add(words, "--network=host");
	smd_words_add(words, "--ipc=host");
	for (size_t i = 0; i < launch->nmounts; i++) {
		const struct smd_mount *mount = &launch->mounts[i];

		smd_words_add(words, "--volume=%s:%s%s", mount->path, mount->path,
			mount->writable ? "" : ":ro");
	}
	smd_words_add(words, "--group-add=%u", group_of_mounts(runtime));
	if (launch->directory) {
		smd_words_add(words, "--workdir=%s", launch->directory);
	}
	if (sees_gpus(launch)) {
		smd_words_add(words, "%s", runtime->gpus);
	}
	add_variables(words, runtime, launch);
	if (launch->has_command) {
		smd_words_add(words, "--entrypoint=%s", *word++);
	}
	smd_words_add(words, "--"); /* an image's name is never taken for an option */
	smd_words_add(words, "%s", launch->image);
	for (; *word; word++) {
		smd_words_add(words, "%s", *word);
	}
}

char **smd_container_argv(
	const struct smd_container_runtime *runtime, const struct smd_launch *launch)
{
	struct smd_words words = {0};
	size_t count = FIXED_WORDS_MAX + launch->nmounts + launch->environment->count;

	for (char *const *word = launch->argv; *word; word++) {
		count++;
	}
	words.argv = calloc(count, sizeof(*words.argv));
	if (!words.argv) {
		return NULL;
	}
	if (runtime->inherits_environment) {
		add_inheriting(&words, runtime, launch);
	} else {
		add_isolated(&words, runtime, launch);
	}
	if (words.failed) {
		smd_argv_free(words.argv);
		return NULL;
	}
	return words.argv;
}

/* ---- sessions ---- */

#define MARK "SUMMAND_SESSION"

char **smd_container_exec_argv(const struct smd_container_runtime *runtime,
	const struct smd_launch *launch, const char *mark)
{
	struct smd_words words = {0};
	size_t count = FIXED_WORDS_MAX;

	for (char *const *word = launch->argv; *word; word++) {
		count++;
	}
	words.argv = calloc(count, sizeof(*words.argv));
	if (!words.argv) {
		return NULL;
	}
	smd_words_add(&words, "%s", runtime->name);
	smd_words_add(&words, "exec");
	smd_words_add(&words, "--interactive");
	if (launch->terminal.rows) {
		smd_words_add(&words, "--tty");
		smd_words_add(&words, "--env=TERM=%s", launch->terminal.type);
	}
	smd_words_add(&words, "--env=" MARK "=%s", mark);
	smd_words_add(&words, "%s", launch->name);
	for (char *const *word = launch->argv; *word; word++) {
		smd_words_add(&words, "%s", *word);
	}
	if (words.failed) {
		smd_argv_free(words.argv);
		return NULL;
	}
	return words.argv;
}

/* By the shell alone: an image may have no other program. Its `read` leaves out what ends each
 * variable. */
char *smd_container_exec_cleanup(const struct smd_container_runtime *runtime,
	const struct smd_launch *launch, const char *mark)
{
	char *text;

	return asprintf(&text,
		       "%s exec %s /bin/sh -c 'for each in /proc/[0-9]*; do "
		       "while read -r line || [ -n \"$line\" ]; do case $line in "
		       "*" MARK "=%s*) kill -9 ${each#/proc/};; esac; line=; done <$each/environ; "
		       "done' >/dev/null 2>&1",
		       runtime->name, launch->name, mark) < 0
		       ? NULL
		       : text;
}

char *smd_container_cleanup(const struct smd_container_runtime *runtime, const char *name)
{
	char *text;

	if (!runtime->remove) {
		return strdup("");
	}
	return asprintf(&text, "%s %s", runtime->remove, name) < 0 ? NULL : text;
}
