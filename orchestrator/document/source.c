/* Reads a spec into memory. */
#include "orchestrator/document/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_CAPACITY 65536

/* Reads to the end of the file; text has room for a NUL after the length. */
static int read_all(int fd, struct smd_source *source, struct smd_error *error)
{
	size_t capacity = FIRST_CAPACITY;
	ssize_t n = 1;

	source->text = malloc(capacity + 1);
	while (source->text && n != 0) {
		if (source->length > SMD_SOURCE_LENGTH_MAX) {
			return smd_error_set(error, EFBIG, "%s: must be at most %zu MiB long",
				source->name, SMD_SOURCE_LENGTH_MAX >> 20);
		}
		if (source->length == capacity) {
			char *text = realloc(source->text, 2 * capacity + 1);

			if (!text) {
				break;
			}
			source->text = text;
			capacity *= 2;
		}
		n = read(fd, source->text + source->length, capacity - source->length);
		if (n < 0 && errno != EINTR) {
			return smd_error_set(error, errno, "%s: %s", source->name, strerror(errno));
		}
		source->length += n > 0 ? (size_t)n : 0;
	}
	if (!source->text || n != 0) {
		return smd_error_set(error, ENOMEM, "%s: %s", source->name, strerror(ENOMEM));
	}
	source->text[source->length] = '\0';
	return 0;
}

int smd_source_read(const char *path, struct smd_source *out, struct smd_error *error)
{
	int is_stdin = strcmp(path, "-") == 0;
	struct smd_source source = {.name = is_stdin ? "<stdin>" : path};
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0) {
		return smd_error_set(error, errno, "%s: %s", path, strerror(errno));
	}
	ret = read_all(fd, &source, error);
	if (!is_stdin) {
		close(fd);
	}
	if (ret) {
		smd_source_free(&source);
		return ret;
	}
	*out = source;
	return 0;
}

void smd_source_free(struct smd_source *source)
{
	free(source->text);
	*source = (struct smd_source){0};
}
