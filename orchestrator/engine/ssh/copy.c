/* Writes the script that copies programs and libraries to a host and runs the agent there. */
#include "orchestrator/engine/ssh/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduction_server/base/hash.h"
#include "worker/agent/descendants.h"
#include "worker/agent/program.h"

/* Whatever shell the user has there, it starts sh; so what follows has no single quotes. */
#define THERE_BEGIN                                                                                \
	"exec sh -c 'at=${XDG_CACHE_HOME:-${HOME:?must be set}/.cache}"                            \
	"/summand/agent-" SUMMAND_VERSION "-%016" PRIx64 "; "
#define THERE_END "'"

#define LOOK THERE_BEGIN "test -x \"$at/bin/summand-agent\"" THERE_END

/* What each needs, by the names of Debian's packages. */
#define NEEDS                                                                                      \
	"case ${file##*/} in "                                                                     \
	"summand-agent) needs=\"libevent-core-2.1-7 libjansson4 libssl3\" ;; "                     \
	"summand-reduction-server) needs=\"libevent-core-2.1-7 libevent-pthreads-2.1-7 "           \
	"libibverbs1 librdmacm1 libseccomp2 libssl3\" ;; "                                         \
	"summand-mpi) needs=libssl3 ;; "                                                           \
	"*) needs=\"libevent-core-2.1-7 libibverbs1 libjansson4 librdmacm1 libssl3\" ;; esac; "

/* A copy appears whole and when all of it has been tried, or not at all; several hosts may share
 * the folder. */
#define COPY                                                                                       \
	THERE_BEGIN                                                                                \
	"umask 077; new=$at.new.$$; "                                                              \
	"fail() { rm -rf \"$new\"; echo \"the copy cannot be written to $at\" >&2; exit 1; }; "    \
	"mkdir -p \"$new\" && tar -xf - -C \"$new\" || fail; "                                     \
	"for file in \"$new\"/bin/* \"$new\"/lib/*; do case $file in */lib/\\*) continue ;; "      \
	"*/bin/*) said=$(\"$file\" --help </dev/null 2>&1 >/dev/null) ;; "                         \
	"*) said=$(ldd \"$file\" 2>&1 | grep -m 1 \"not found\"); test -z \"$said\" ;; esac && "   \
	"continue; " NEEDS                                                                         \
	"echo \"${file##*/} cannot run there: ${said##*libraries: }; it needs what Debian calls "  \
	"$needs\" >&2; "                                                                           \
	"rm -rf \"$new\"; exit 3; done; "                                                          \
	"mv -T \"$new\" \"$at\" 2>/dev/null || "                                                   \
	"{ test -x \"$at/bin/summand-agent\" || fail; rm -rf \"$new\"; }" THERE_END

#define RUN THERE_BEGIN "exec \"$at/bin/summand-agent\" --host" THERE_END

/* A here-document keeps every character of what goes to the host. */
#define WORDS(name, text) name "=$(cat <<\\END\n" text "\nEND\n)\n"

#define SCRIPT                                                                                     \
	WORDS("look", LOOK)                                                                        \
	WORDS("copy", COPY)                                                                        \
	WORDS("run", RUN)                                                                          \
	"host=$1; shift\n"                                                                         \
	"\"$@\" \"$host\" \"$look\" </dev/null\n"                                                  \
	"status=$?\n"                                                                              \
	"if [ $status = 1 ]; then\n"                                                               \
	"    tar -chf - --transform=s,^lib,lib/lib, --transform=s,^summand,bin/summand,%s |\n"     \
	"        \"$@\" \"$host\" \"$copy\" >/dev/null\n"                                          \
	"    status=$?\n"                                                                          \
	"fi\n"                                                                                     \
	"[ $status = 0 ] || exit $status\n"                                                        \
	"exec \"$@\" \"$host\" \"$run\"\n"

/* The files, as words of tar with the folders that they are in. */
struct bundle {
	char *words;
	uint64_t hash;
};

static int hash_file(uint64_t *hash, const char *path)
{
	unsigned char bytes[16384];
	FILE *file = fopen(path, "re");
	size_t count;
	int ret;

	if (!file) {
		return -errno;
	}
	while ((count = fread(bytes, 1, sizeof(bytes), file)) > 0) {
		*hash = smd_hash(*hash, bytes, count);
	}
	ret = ferror(file) ? -EIO : 0;
	fclose(file);
	return ret;
}

static int add(struct bundle *bundle, const char *folder, const char *name, struct smd_error *error)
{
	char path[PATH_MAX];
	char *words;
	int ret = snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path)
			  ? 0
			  : -ENAMETOOLONG;

	bundle->hash = smd_hash(bundle->hash, (const unsigned char *)name, strlen(name) + 1);
	ret = ret ? ret : hash_file(&bundle->hash, path);
	if (ret) {
		return smd_error_set(error, -ret, "--copy: %s: %s", path, strerror(-ret));
	}
	if (strchr(folder, '\'') ||
		asprintf(&words, "%s -C '%s' %s", bundle->words, folder, name) < 0) {
		return smd_error_set(error, EINVAL, "--copy: %s: must have no quote", folder);
	}
	free(bundle->words);
	bundle->words = words;
	return 0;
}

/* Those of workers that find reduction servers: what NCCL loads, what RCCL does, and what other programs do. */
static int add_libraries(struct bundle *bundle, const char *programs, struct smd_error *error)
{
	static const char *const names[] = {
		"libnccl-net-summand.so", "librccl-net-summand.so", "libsummand.so.0"};
	char *folder;
	int ret = smd_program_find_plugin(programs, &folder);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && folder && !ret; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		ret = access(path, R_OK) ? 0 : add(bundle, folder, names[i], error);
	}
	free(folder);
	return ret;
}

static int make_bundle(
	struct bundle *bundle, const struct smd_ssh_options *options, struct smd_error *error)
{
	char *programs = smd_program_folder(options->agent);
	int ret = programs && bundle->words ? 0 : -ENOMEM;

	ret = ret ? ret : add(bundle, programs, SMD_AGENT_PROGRAM, error);
	if (!ret && options->has_servers) {
		ret = add(bundle, programs, "summand-reduction-server", error);
		ret = ret ? ret : add_libraries(bundle, programs, error);
	}
	if (!ret && options->has_mpi) {
		ret = add(bundle, programs, "summand-mpi", error);
	}
	free(programs);
	return ret ? smd_error_set(error, -ret, "--copy: %s", strerror(-ret)) : 0;
}

int smd_copy_make_script(char **out, const struct smd_ssh_options *options, struct smd_error *error)
{
	struct bundle bundle = {.words = strdup(""), .hash = SMD_HASH_SEED};
	int ret = make_bundle(&bundle, options, error);

	if (!ret &&
		asprintf(out, SCRIPT, bundle.hash, bundle.hash, bundle.hash, bundle.words) < 0) {
		*out = NULL;
		ret = smd_error_set(error, ENOMEM, "--copy: %s", strerror(ENOMEM));
	}
	free(bundle.words);
	return ret;
}
