/* A process's variables as a shell reads them: unset NAME, export NAME='VALUE' */
#include <errno.h>
#include <string.h>

#include "orchestrator/contract/caller.h"
#include "orchestrator/contract/contract.h"
#include "orchestrator/job/secret.h"
#include "reduction_server/base/printable.h"

static void print_within_escaped(const char *value, size_t length, FILE *out)
{
	for (size_t i = 0; i < length; i++) {
		if (value[i] == '\n') {
			fputs("\\n", out);
		} else {
			fprintf(out, "%s%c", strchr("'\\", value[i]) ? "\\" : "", value[i]);
		}
	}
}

/* $'...' of bash and zsh, for what a terminal would obey: in bytes, because \u depends on the
 * shell's language. */
static void print_escaped(const char *value, FILE *out)
{
	const char *bad;
	size_t length;

	fputs("$'", out);
	while ((bad = smd_unprintable(value, &length))) {
		print_within_escaped(value, (size_t)(bad - value), out);
		for (value = bad; value < bad + length; value++) {
			fprintf(out, "\\x%02x", (unsigned char)*value);
		}
	}
	print_within_escaped(value, strlen(value), out);
	fputc('\'', out);
}

/* '...' keeps everything as it is but the quote itself. */
void smd_shell_quote(const char *value, FILE *out)
{
	size_t length;

	if (smd_unprintable(value, &length)) {
		print_escaped(value, out);
		return;
	}
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

static int is_secret(const struct smd_variable *variable)
{
	return *variable->value && smd_secret_is_name(variable->name);
}

int smd_environment_has_secrets(const struct smd_environment *environment)
{
	for (size_t i = 0; i < environment->count; i++) {
		const struct smd_variable *variable = &environment->variables[i];

		if (is_secret(variable) || strstr(variable->value, SMD_SECRET_MASK)) {
			return 1;
		}
	}
	return 0;
}

const char *smd_variable_shown(const struct smd_variable *variable)
{
	return is_secret(variable) ? SMD_SECRET_MASK : variable->value;
}

static void print_unset(const struct smd_environment *environment, char *const *caller, FILE *out)
{
	int count = 0;

	for (size_t i = 0; caller[i]; i++) {
		if (smd_caller_withholds(caller, caller[i], environment)) {
			fprintf(out, "%s %.*s", count++ ? "" : "unset",
				(int)strcspn(caller[i], "="), caller[i]);
		}
	}
	if (count) {
		fputc('\n', out);
	}
}

int smd_environment_print(
	const struct smd_environment *environment, char *const *caller, int masks, FILE *out)
{
	const char *servers;
	int length = smd_caller_servers(caller, environment, &servers);

	print_unset(environment, caller, out);
	if (length > 0) {
		fprintf(out,
			"# reduction servers: from the caller's SUMMAND_REDUCTION_SERVERS, %.*s\n",
			length, servers);
	}
	if (masks && smd_environment_has_secrets(environment)) {
		fprintf(out, "# " SMD_SECRET_REMARK "\n");
	}
	for (size_t i = 0; i < environment->count; i++) {
		const struct smd_variable *variable = &environment->variables[i];
		int is_masked = masks && is_secret(variable);

		fprintf(out, "%sexport %s=", is_masked ? "# " : "", variable->name);
		smd_shell_quote(is_masked ? SMD_SECRET_MASK : variable->value, out);
		fputc('\n', out);
	}
	return ferror(out) ? -EIO : 0;
}
