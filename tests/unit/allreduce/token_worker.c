/* Makes its way to a server with a token. */
#include "tests/unit/allreduce/token_worker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/summand.h"

enum { COUNT = 1024 };

int token_work(const char *address, const char *job, const char *token)
{
	const struct smd_context_options options = {.servers = address,
		.replica = "worker",
		.job = job,
		.transport = "tcp",
		.connect_timeout_s = 60};
	char path[] = "/tmp/smd-token-XXXXXX";
	int32_t values[COUNT] = {1, 2, 3};
	smd_context *context;
	smd_comm *comm;
	int ret;

	unsetenv("SUMMAND_TOKEN_FILE");
	if (token) {
		int fd = mkstemp(path);

		assert_int_equal(write(fd, token, strlen(token)), strlen(token));
		close(fd);
		setenv("SUMMAND_TOKEN_FILE", path, 1);
	}
	ret = smd_context_create(&options, &context);
	unlink(path);
	if (ret) {
		return ret;
	}
	assert_int_equal(smd_comm_create(context, "group", 1, 0, &comm), 0);
	assert_int_equal(smd_allreduce(comm, values, values, COUNT, SMD_INT32, SMD_SUM), 0);
	assert_int_equal(values[2], 3);
	smd_comm_destroy(comm);
	smd_context_destroy(context);
	return 0;
}

void token_assert_said(const char *text)
{
	if (!strstr(smd_error_message(), text)) {
		fail_msg("expected \"%s\" in \"%s\"", text, smd_error_message());
	}
	assert_null(strstr(smd_error_message(), TOKEN));
}
