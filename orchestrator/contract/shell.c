/* A process's variables as a shell reads them: export NAME='VALUE' */
#include <errno.h>
#include <string.h>

#include "orchestrator/contract/contract.h"

/* '...' keeps everything as it is but the quote itself. */
static void print_quoted(const char *value, FILE *out)
{
	fputc('\'', out);
	for (;;) {
		size_t plain = strcspn(value, "'");

		fwrite(value, 1, plain, out);
		value += plain;
		if (!*value) {
			break;
		}
		fputs("'\\''", out);
		value++;
	}
	fputc('\'', out);
}

int smd_environment_print(const struct smd_environment *environment, FILE *out)
{
	for (size_t i = 0; i < environment->count; i++) {
		fprintf(out, "export %s=", environment->variables[i].name);
		print_quoted(environment->variables[i].value, out);
		fputc('\n', out);
	}
	return ferror(out) ? -EIO : 0;
}
