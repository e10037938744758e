/* A failure that NCCL takes no notice of: the process ends, unless what has failed is closed, the
 * version of NCCL is another, or the user wants it to wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/nccl_plugin/abi/loss.h"
#include "worker/nccl_plugin/abi/nccl_abi.h"

extern const struct nccl_tuner_v2 ncclTunerPlugin_v2;
extern const struct nccl_tuner_v3 ncclTunerPlugin_v3;

#define PATIENCE_MS 300u

static char comms[2];
static char said[2048];

static void all_is_lost(void)
{
	smd_loss_tell(&comms[0], "reduction server 10.0.0.7:2222 was lost");
	smd_loss_tell(&comms[1], "rank 1 was lost");
}

static void all_is_closed(void)
{
	all_is_lost();
	smd_loss_close(&comms[1]);
	smd_loss_close(&comms[0]);
}

static void one_is_closed(void)
{
	all_is_lost();
	smd_loss_close(&comms[1]);
}

static void other_is_closed(void)
{
	smd_loss_close(&comms[1]);
	smd_loss_close(&said);
}

/* After the others were closed, and their thread has ended or not. */
static void lost_again(void)
{
	all_is_closed();
	usleep(150000);
	all_is_lost();
}

/* Does it in a process of its own, which then goes on for long enough; the signal that ended that,
 * or 0. What it has printed is in `said`. */
static int signal_after(void (*body)(void), const char *on_loss, bool unheard)
{
	int output[2];
	int status;
	pid_t process;
	ssize_t size;

	assert_int_equal(pipe(output), 0);
	process = fork();
	if (process == 0) {
		struct smd_error error = {""};

		signal(SIGABRT, SIG_DFL); /* cmocka's goes on with the next test */
		dup2(output[1], STDERR_FILENO);
		if (on_loss) {
			setenv("SUMMAND_NCCL_ON_LOSS", on_loss, 1);
		} else {
			unsetenv("SUMMAND_NCCL_ON_LOSS");
		}
		smd_loss_patience_ms = PATIENCE_MS;
		if (smd_loss_read(&error)) {
			_exit(1);
		}
		if (unheard) {
			smd_loss_is_unheard();
		}
		body();
		usleep(4 * PATIENCE_MS * 1000);
		_exit(0);
	}
	close(output[1]);
	size = read(output[0], said, sizeof(said) - 1);
	said[size > 0 ? size : 0] = '\0';
	close(output[0]);
	assert_int_equal(waitpid(process, &status, 0), process);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void a_process_that_would_wait_for_ever_ends(void **state)
{
	(void)state;
	assert_int_equal(signal_after(all_is_lost, NULL, true), SIGABRT);
	assert_non_null(strstr(said, "NET/Summand: rank 1 was lost. NCCL was told "));
	assert_non_null(strstr(said, " and still waits: 2.23 to 2.25 cannot abort"));
	assert_non_null(strstr(said, "; SUMMAND_NCCL_ON_LOSS=wait keeps it\n"));
	assert_int_equal(signal_after(one_is_closed, NULL, true), SIGABRT);
	assert_non_null(strstr(said, "NET/Summand: reduction server 10.0.0.7:2222 was lost. "));
	assert_int_equal(signal_after(lost_again, NULL, true), SIGABRT);
}

static void what_nccl_closes_it_has_taken_notice_of(void **state)
{
	(void)state;
	assert_int_equal(signal_after(all_is_closed, NULL, true), 0);
	assert_string_equal(said, "");
	assert_int_equal(signal_after(other_is_closed, "abort", true), 0);
}

static void other_versions_end_by_themselves(void **state)
{
	(void)state;
	assert_int_equal(signal_after(all_is_lost, NULL, false), 0);
	assert_int_equal(signal_after(all_is_lost, "", false), 0);
	assert_int_equal(signal_after(all_is_lost, "abort", false), SIGABRT);
	assert_non_null(strstr(said, " and has not closed its communicator, so that this process "
				     "ends by SUMMAND_NCCL_ON_LOSS=abort; "));
	assert_null(strstr(said, "2.23"));
}

/* What NCCL logs with where it is part of a program that shows no function of it. */
static void log_of_nobody(enum nccl_log_level level, unsigned long subsystems, const char *file,
	int line, const char *format, ...)
{
	(void)level;
	(void)subsystems;
	(void)file;
	(void)line;
	(void)format;
}

static void all_is_lost_with_tuner_v2(void)
{
	void *ctx;

	ncclTunerPlugin_v2.init(8, 2, log_of_nobody, &ctx);
	all_is_lost();
}

static void all_is_lost_with_tuner_v3(void)
{
	void *ctx;

	ncclTunerPlugin_v3.init(8, 2, log_of_nobody, &ctx);
	all_is_lost();
}

/* 2.21 takes tuner v2. 2.22 and 2.23 take v3, of which the latter would wait. */
static void without_a_version_the_tuner_tells(void **state)
{
	(void)state;
	assert_int_equal(signal_after(all_is_lost_with_tuner_v2, NULL, false), 0);
	assert_int_equal(signal_after(all_is_lost_with_tuner_v3, NULL, false), SIGABRT);
	assert_int_equal(signal_after(all_is_lost_with_tuner_v3, "wait", false), 0);
}

static void the_user_may_let_it_wait(void **state)
{
	(void)state;
	assert_int_equal(signal_after(all_is_lost, "wait", true), 0);
	assert_string_equal(said, "");
}

static void another_word_is_refused(void **state)
{
	struct smd_error error = {""};

	(void)state;
	setenv("SUMMAND_NCCL_ON_LOSS", "exit", 1);
	assert_int_equal(smd_loss_read(&error), -22);
	assert_string_equal(
		error.text, "SUMMAND_NCCL_ON_LOSS: must be abort or wait, got \"exit\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_that_would_wait_for_ever_ends),
		cmocka_unit_test(what_nccl_closes_it_has_taken_notice_of),
		cmocka_unit_test(other_versions_end_by_themselves),
		cmocka_unit_test(without_a_version_the_tuner_tells),
		cmocka_unit_test(the_user_may_let_it_wait),
		cmocka_unit_test(another_word_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
