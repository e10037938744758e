/* Builds the command line of a container's step, and what the container finds of the host. */
#include "worker/agent/host/pyxis.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/agent/descendants.h"
#include "worker/agent/host/words.h"

#define WORDS_MAX 32

/* The container's shell says which process it is, takes the replica's variables, which count more
 * than the image's and Slurm's, its command, and the notify pipe. Where the file with these is
 * gone, the replica has been ended before it began. */
static const char script[] =
	"echo $$ >\"$0.pid\" && . \"$0.command\" && exec 3>\"$0.notify\" && exec \"$@\"";

/* ---- names ---- */

/* Docker's rule: what is before the first slash is a registry if it cannot be a user. */
static size_t registry_length(const char *image)
{
	size_t length = strcspn(image, "/");

	if (!image[length]) {
		return 0;
	}
	return memchr(image, '.', length) || memchr(image, ':', length) ||
			       (length == 9 && strncmp(image, "localhost", 9) == 0)
		       ? length
		       : 0;
}

/* enroot writes IMAGE:sha256:..., without a tag, where others have IMAGE:TAG@sha256:... */
static void rewrite_digest(char *name)
{
	char *digest = strchr(name, '@');
	char *tag;

	if (!digest) {
		return;
	}
	*digest = '\0';
	tag = strrchr(name, ':');
	if (tag && !strchr(tag, '/')) {
		*tag = '\0';
	}
	memmove(name + strlen(name) + 1, digest + 1, strlen(digest + 1) + 1);
	name[strlen(name)] = ':';
}

char *smd_pyxis_image(const char *image)
{
	static const char scheme[] = "docker://";
	size_t registry;
	char *name;

	if (image[0] == '/' || image[0] == '.') {
		return strdup(image);
	}
	image += strncmp(image, scheme, strlen(scheme)) == 0 ? strlen(scheme) : 0;
	if (strchr(image, '#')) {
		return strdup(image);
	}
	registry = registry_length(image);
	if (registry == 9 && strncmp(image, "docker.io", 9) == 0) {
		image += registry + 1; /* the default, whose registry has another name */
		registry = 0;
	}
	name = strdup(image + registry + (registry > 0));
	if (name) {
		rewrite_digest(name);
	}
	if (name && registry > 0) {
		char *whole;

		if (asprintf(&whole, "%.*s#%s", (int)registry, image, name) < 0) {
			whole = NULL;
		}
		free(name);
		name = whole;
	}
	return name;
}

static int is_identifier(const char *name)
{
	for (const char *at = name; *at; at++) {
		if (!isalnum((unsigned char)*at) && *at != '_') {
			return 0;
		}
	}
	return *name && !isdigit((unsigned char)*name);
}

/* ---- the replica's variables and command ---- */

static void write_quoted(const char *text, FILE *file)
{
	fputc('\'', file);
	for (; *text; text++) {
		if (*text == '\'') {
			fputs("'\\''", file);
		} else {
			fputc(*text, file);
		}
	}
	fputc('\'', file);
}

static void print_command(const struct smd_launch *launch, FILE *file)
{
	const struct smd_environment *environment = launch->environment;

	fputs("export SUMMAND_NOTIFY_FD=3\n", file);
	for (size_t i = 0; i < environment->count; i++) {
		fprintf(file, "export %s=", environment->variables[i].name);
		write_quoted(environment->variables[i].value, file);
		fputc('\n', file);
	}
	fputs("set --", file);
	for (char *const *word = launch->argv; *word; word++) {
		fputc(' ', file);
		write_quoted(*word, file);
	}
	fputc('\n', file);
}

/* A file, because a command line shows values to everybody, Pyxis lets the image's values stand
 * before those of srun's variables, and srun takes a word ":" for its own. */
static int write_command(
	const struct smd_launch *launch, const char *prefix, struct smd_error *error)
{
	char *path;
	FILE *file;
	int fd;

	if (asprintf(&path, "%s.command", prefix) < 0) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (!file) {
		int ret = smd_error_set(
			error, errno, "%s: cannot be written: %s", path, strerror(errno));

		if (fd >= 0) {
			close(fd);
		}
		free(path);
		return ret;
	}
	print_command(launch, file);
	if (fclose(file)) {
		int ret = smd_error_set(
			error, errno, "%s: cannot be written: %s", path, strerror(errno));

		free(path);
		return ret;
	}
	free(path);
	return 0;
}

/* ---- what cannot be ---- */

static int check(const struct smd_launch *launch, struct smd_error *error)
{
	if (!getenv("SLURM_JOB_ID") || !getenv("SLURMD_NODENAME")) {
		return smd_error_set(
			error, EINVAL, "--container-runtime=pyxis: must run within a job of Slurm");
	}
	if (!launch->has_command) {
		return smd_error_set(error, EINVAL,
			"%s: must come with a command: Pyxis does not run an image's own entry "
			"point",
			launch->image);
	}
	for (size_t i = 0; i < launch->environment->count; i++) {
		const char *name = launch->environment->variables[i].name;

		if (!is_identifier(name)) {
			return smd_error_set(error, EINVAL,
				"variable %s: must have a name of letters, digits and _ in a "
				"container of Pyxis",
				name);
		}
	}
	for (size_t i = 0; i < launch->nmounts; i++) {
		const char *path = launch->mounts[i].path;

		if (strpbrk(path, " \t\n,:\"'$`\\")) {
			return smd_error_set(error, EINVAL,
				"%s: must have no white space and none of ,:\"'$`\\ in its path to "
				"be "
				"mounted by Pyxis",
				path);
		}
	}
	return 0;
}

/* ---- the command line ---- */

static void add_mounts(struct smd_words *words, const struct smd_launch *launch)
{
	char *text = strdup("");

	for (size_t i = 0; i < launch->nmounts && text; i++) {
		const struct smd_mount *mount = &launch->mounts[i];
		char *longer;

		if (asprintf(&longer, "%s%s%s:%s%s", text, i ? "," : "", mount->path, mount->path,
			    mount->writable ? "" : ":ro") < 0) {
			longer = NULL;
		}
		free(text);
		text = longer;
	}
	if (!text) {
		words->failed = 1;
	} else if (launch->nmounts) {
		smd_words_add(words, "--container-mounts=%s", text);
	}
	free(text);
}

/* One task on this node, beside the agent's, which has the node's resources. */
static void add_step(struct smd_words *words, const struct smd_launch *launch)
{
	const char *group = getenv("SUMMAND_SLURM_GROUP");
	char *image = smd_pyxis_image(launch->image);

	smd_words_add(words, "srun");
	smd_words_add(words, "--jobid=%s", getenv("SLURM_JOB_ID"));
	if (group) {
		smd_words_add(words, "--het-group=%s", group);
	}
	smd_words_add(words, "--overlap");
	smd_words_add(words, "--nodes=1");
	smd_words_add(words, "--ntasks=1");
	smd_words_add(words, "--nodelist=%s", getenv("SLURMD_NODENAME"));
	smd_words_add(words, "--mpi=none");
	smd_words_add(words, "--cpu-bind=none");
	smd_words_add(words, "--input=none");
	smd_words_add(words, "--export=ALL");
	smd_words_add(words, "--chdir=/");
	smd_words_add(words, "--container-image=%s", image ? image : "");
	smd_words_add(words, "--no-container-mount-home");
	smd_words_add(words, "--no-container-entrypoint");
	add_mounts(words, launch);
	if (launch->directory) {
		smd_words_add(words, "--container-workdir=%s", launch->directory);
	}
	words->failed |= !image;
	free(image);
}

int smd_pyxis_prepare(const struct smd_launch *launch, const struct smd_pyxis_place *place,
	char ***argv, struct smd_error *error)
{
	struct smd_words words = {0};
	int ret = check(launch, error);

	ret = ret ? ret : write_command(launch, place->prefix, error);
	if (ret) {
		return ret;
	}
	words.argv = calloc(WORDS_MAX + 1, sizeof(*words.argv));
	if (!words.argv) {
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	smd_words_add(&words, "%s/" SMD_AGENT_PROGRAM, place->program_dir);
	smd_words_add(&words, "--container-step=%s", place->prefix);
	smd_words_add(&words, "--");
	add_step(&words, launch);
	smd_words_add(&words, "sh");
	smd_words_add(&words, "-c");
	smd_words_add(&words, "%s", script);
	smd_words_add(&words, "%s", place->prefix);
	if (words.failed) {
		smd_argv_free(words.argv);
		return smd_error_set(error, ENOMEM, "%s", strerror(ENOMEM));
	}
	*argv = words.argv;
	return 0;
}

/* ---- srun's own variables ---- */

/* The agent's step is not the container's; SLURM_CONF tells where the cluster is. PYXIS_ variables
 * would add to the command line. */
static int describes_a_step(const char *text)
{
	return (strncmp(text, "SLURM_", 6) == 0 && strncmp(text, "SLURM_CONF", 10) != 0) ||
	       strncmp(text, "SRUN_", 5) == 0 || strncmp(text, "PYXIS_", 6) == 0;
}

/* By default an image says whether it wants GPUs. Which of them is CUDA_VISIBLE_DEVICES' part. */
static int add_gpus(char **variables, size_t count, const struct smd_launch *launch)
{
	static const char *const wanted[] = {
		"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"};
	const char *gpus = smd_environment_get(launch->environment, "CUDA_VISIBLE_DEVICES");

	for (size_t i = 0; gpus && *gpus && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		size_t length = strcspn(wanted[i], "=");
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)length, wanted[i]);
		if (getenv(name)) {
			continue;
		}
		variables[count] = strdup(wanted[i]);
		if (!variables[count++]) {
			return -ENOMEM;
		}
	}
	return 0;
}

char **smd_pyxis_environment(const struct smd_launch *launch)
{
	size_t count = 0;
	size_t kept = 0;
	char **copy;

	while (environ[count]) {
		count++;
	}
	copy = calloc(count + 3, sizeof(*copy));
	for (size_t i = 0; i < count && copy; i++) {
		if (describes_a_step(environ[i])) {
			continue;
		}
		copy[kept] = strdup(environ[i]);
		if (!copy[kept++]) {
			smd_argv_free(copy);
			return NULL;
		}
	}
	if (copy && add_gpus(copy, kept, launch)) {
		smd_argv_free(copy);
		return NULL;
	}
	return copy;
}

/* ---- the end ---- */

/* Without its command a container that comes later does not begin. srun's death alone ends
 * nothing; the process group is what the replica runs in, and Slurm ends the rest of the step. */
char *smd_pyxis_cleanup(const char *prefix)
{
	char *text;

	return asprintf(&text,
		       "rm -f '%s.command' '%s.notify'; "
		       "read -r pid <'%s.pid' && [ \"$pid\" -gt 1 ] && "
		       "for i in 1 2 3 4 5 6 7 8 9; do kill -s KILL -- -\"$pid\" || break; "
		       "sleep 0.1; done; rm -f '%s.pid'",
		       prefix, prefix, prefix, prefix) < 0
		       ? NULL
		       : text;
}
