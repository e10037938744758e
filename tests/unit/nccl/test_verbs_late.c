/* RDMA's libraries where they are opened late: they are found by the first call, and do not have to
 * be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "reduction_server/transport/rdma/verbs.h"

static unsigned opened;

/* In the place of the system's: a machine without the packages. */
void *dlopen(const char *name, int flags)
{
	(void)flags;
	assert_string_equal(name, "librdmacm.so.1");
	opened++;
	return NULL;
}

static void without_the_libraries_there_is_no_device(void **state)
{
	struct smd_error error = {""};

	(void)state;
	assert_int_equal(smd_verbs_check(&error), -ENODEV);
	assert_non_null(strstr(error.text, "there is no RDMA device"));
	assert_int_equal(opened, 1);
}

static void without_them_all_else_fails(void **state)
{
	struct rdma_event_channel *channel = NULL;
	struct rdma_cm_id *id = NULL;
	struct ibv_pd *domain = NULL;

	(void)state;
	assert_int_equal(smd_verbs_channel_create(&channel), -ENOSYS);
	assert_int_equal(smd_verbs_id_create(channel, NULL, &id), -ENOSYS);
	assert_int_equal(smd_verbs_domain_create(NULL, &domain), -ENOSYS);
	smd_verbs_forget_removed();
	assert_int_equal(opened, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_libraries_there_is_no_device),
		cmocka_unit_test(without_them_all_else_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
