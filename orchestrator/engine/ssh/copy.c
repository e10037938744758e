/* Writes the script that copies summand-agent to a host and runs it there. */
#include "orchestrator/engine/ssh/copy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduction_server/base/hash.h"

/* Whatever shell the user has there, it starts sh; so what follows has no single quotes. */
#define THERE_BEGIN                                                                                \
	"exec sh -c 'at=${XDG_CACHE_HOME:-$HOME/.cache}/summand/agent-" SUMMAND_VERSION            \
	"-%016" PRIx64 "; "
#define THERE_END "'"

#define LOOK THERE_BEGIN "test -x \"$at/summand-agent\"" THERE_END

/* A copy appears whole and when it has run once, or not at all; several hosts may share the folder.
 */
#define COPY                                                                                       \
	THERE_BEGIN "umask 077; new=$at/new.$$; mkdir -p \"$at\" && cat >\"$new\" && "             \
		    "test $(wc -c <\"$new\") -eq %zu && chmod 700 \"$new\" || "                    \
		    "{ rm -f \"$new\"; exit 1; }; "                                                \
		    "\"$new\" --help </dev/null >/dev/null || { rm -f \"$new\"; exit 3; }; "       \
		    "mv -f \"$new\" \"$at/summand-agent\"" THERE_END

#define RUN THERE_BEGIN "exec \"$at/summand-agent\" --host" THERE_END

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
	"    \"$@\" \"$host\" \"$copy\" <'%s' >/dev/null\n"                                        \
	"    status=$?\n"                                                                          \
	"    [ $status != 3 ] || echo 'summand-agent cannot run there: it needs libevent-core, "   \
	"libjansson and libssl as they are here' >&2\n"                                            \
	"    [ $status != 1 ] || echo 'summand-agent cannot be copied there' >&2\n"                \
	"fi\n"                                                                                     \
	"[ $status = 0 ] || exit $status\n"                                                        \
	"exec \"$@\" \"$host\" \"$run\"\n"

static int read_program(const char *path, uint64_t *hash, size_t *size)
{
	unsigned char bytes[16384];
	FILE *file = fopen(path, "re");
	size_t count;
	int ret;

	if (!file) {
		return -errno;
	}
	*hash = SMD_HASH_SEED;
	*size = 0;
	while ((count = fread(bytes, 1, sizeof(bytes), file)) > 0) {
		*hash = smd_hash(*hash, bytes, count);
		*size += count;
	}
	ret = ferror(file) ? -EIO : 0;
	fclose(file);
	return ret;
}

int smd_copy_make_script(char **out, const char *agent, struct smd_error *error)
{
	uint64_t hash;
	size_t size;
	int ret = read_program(agent, &hash, &size);

	if (ret) {
		return smd_error_set(error, -ret, "--copy: %s: %s", agent, strerror(-ret));
	}
	if (asprintf(out, SCRIPT, hash, hash, size, hash, agent) < 0) {
		*out = NULL;
		return smd_error_set(error, ENOMEM, "--copy: %s", strerror(ENOMEM));
	}
	return 0;
}
