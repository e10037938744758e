/*
 * Stands in for Pyxis in a test's cluster: a plugin of Slurm with the same options, whose images
 * are folders, so that it needs no registry and no enroot. What counts for summand it does as Pyxis
 * does: the task itself enters the container, in this host's process and network namespaces; the
 * image's variables stand before those of srun, but for the names in --container-env; a command is
 * run without the image's entry point. Each container is told in the file that is its argument.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(summand_pyxis, 1)

enum { IMAGE, MOUNTS, WORKDIR, SWITCHES };

static char values[SWITCHES][4096];

static int take(int which, const char *argument, int is_remote)
{
	(void)is_remote;
	if (which < SWITCHES) {
		snprintf(values[which], sizeof(values[which]), "%s", argument);
	}
	return 0;
}

static struct spank_option options[] = {{"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH",
						"[pyxis] the image", 1, IMAGE, take},
	{"container-mounts", "SRC:DST[:FLAGS][,SRC:DST...]", "[pyxis] bind mounts", 1, MOUNTS,
		take},
	{"container-workdir", "PATH", "[pyxis] working directory", 1, WORKDIR, take},
	{"no-container-mount-home", NULL, "[pyxis] no home directory", 0, SWITCHES, take},
	{"no-container-entrypoint", NULL, "[pyxis] no entry point", 0, SWITCHES, take},
	SPANK_OPTIONS_TABLE_END};

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (int i = 0; options[i].name; i++) {
		if (spank_option_register(spank, &options[i]) != ESPANK_SUCCESS) {
			return -1;
		}
	}
	return 0;
}

/* As enroot's x-create=auto. */
static int make_target(const char *source, const char *target)
{
	char path[8192];
	struct stat status;
	FILE *file;

	if (stat(source, &status)) {
		return -1;
	}
	for (const char *at = strchr(target + 1, '/'); at; at = strchr(at + 1, '/')) {
		snprintf(path, sizeof(path), "%.*s", (int)(at - target), target);
		mkdir(path, 0755);
	}
	if (S_ISDIR(status.st_mode)) {
		return mkdir(target, 0755) && errno != EEXIST ? -1 : 0;
	}
	file = fopen(target, "a");
	return file ? fclose(file) : -1;
}

static int mount_one(const char *source, const char *destination, int is_read_only)
{
	char target[8192];

	snprintf(target, sizeof(target), "%s%s", values[IMAGE], destination);
	if (make_target(source, target) || mount(source, target, NULL, MS_BIND | MS_REC, NULL)) {
		return -1;
	}
	return is_read_only ? mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL) : 0;
}

static int mount_all(void)
{
	char text[sizeof(values[MOUNTS])];
	char *rest = text;
	char *entry;

	if (mount(values[IMAGE], values[IMAGE], NULL, MS_BIND | MS_REC, NULL) ||
		mount_one("/dev", "/dev", 0)) {
		return -1;
	}
	memcpy(text, values[MOUNTS], sizeof(text));
	while ((entry = strsep(&rest, ",")) && *entry) {
		const char *source = strsep(&entry, ":");
		const char *destination = strsep(&entry, ":");

		if (mount_one(source, destination ? destination : source,
			    entry && strcmp(entry, "ro") == 0)) {
			slurm_error("pyxis: %s: cannot be mounted: %s", source, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static void tell(const char *path)
{
	FILE *file = fopen(path, "a");

	if (file) {
		fprintf(file, "image %s mounts %s workdir %s pid %d\n", values[IMAGE],
			values[MOUNTS], values[WORKDIR], (int)getpid());
		fclose(file);
	}
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	if (!values[IMAGE][0]) {
		return 0;
	}
	if (argc > 0) {
		tell(argv[0]);
	}
	if (values[IMAGE][0] != '/' || access(values[IMAGE], X_OK)) {
		slurm_error("pyxis: failed to import docker image %s", values[IMAGE]);
		return -1;
	}
	spank_setenv(spank, "PATH", "/bin", 1);
	spank_setenv(spank, "OF_THE_IMAGE", "image", 1);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount_all() || chroot(values[IMAGE]) ||
		chdir(values[WORKDIR][0] ? values[WORKDIR] : "/")) {
		slurm_error("pyxis: couldn't start container: %s", strerror(errno));
		return -1;
	}
	return 0;
}
