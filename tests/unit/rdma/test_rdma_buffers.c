/* Places for lanes' messages: none overlaps another, all lie in huge pages, and are used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "reduction_server/base/pages.h"
#include "reduction_server/transport/rdma/rdma.h"

enum { PLACES = 60 }; /* ten pages, full */

static uintptr_t page_of(const uint8_t *place)
{
	return (uintptr_t)place / SMD_PAGES_HUGE;
}

static void places_are_in_huge_pages_and_apart(void **state)
{
	struct rdma_buffers buffers = {LIST_HEAD_INITIALIZER(buffers.slabs), -1};
	uint8_t *places[PLACES];
	unsigned pages = 0;

	(void)state;
	for (int i = 0; i < PLACES; i++) {
		places[i] = smd_rdma_buffers_take(&buffers);
		assert_non_null(places[i]);
		assert_int_equal((uintptr_t)places[i] % 4096, 0);
		assert_int_equal(
			page_of(places[i]), page_of(places[i] + SMD_RDMA_BUFFERS_BYTES - 1));
		memset(places[i], i + 1, SMD_RDMA_BUFFERS_BYTES);
		pages += i == 0 || page_of(places[i]) != page_of(places[i - 1]);
	}
	assert_int_equal(pages, PLACES / 6); /* six lanes share one */
	for (int i = 0; i < PLACES; i++) {
		assert_int_equal(places[i][0], i + 1);
		assert_int_equal(places[i][SMD_RDMA_BUFFERS_BYTES - 1], i + 1);
		smd_rdma_buffers_put(&buffers, places[i]);
	}
	smd_rdma_buffers_free(&buffers);
}

static void a_place_that_is_free_is_taken_again(void **state)
{
	struct rdma_buffers buffers = {LIST_HEAD_INITIALIZER(buffers.slabs), 0}; /* there always is one */
	uint8_t *places[PLACES];
	uint8_t *again;

	(void)state;
	for (int i = 0; i < PLACES; i++) {
		places[i] = smd_rdma_buffers_take(&buffers);
	}
	smd_rdma_buffers_put(&buffers, places[20]);
	again = smd_rdma_buffers_take(&buffers);
	assert_ptr_equal(again, places[20]);
	for (int i = 0; i < PLACES; i++) { /* in the order of lanes that come and go */
		smd_rdma_buffers_put(&buffers, places[(i * 7) % PLACES]);
	}
	places[0] = smd_rdma_buffers_take(&buffers);
	assert_non_null(places[0]);
	smd_rdma_buffers_put(&buffers, places[0]);
	smd_rdma_buffers_free(&buffers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(places_are_in_huge_pages_and_apart),
		cmocka_unit_test(a_place_that_is_free_is_taken_again),
	};

	return cmocka_run_group_tests_name("rdma buffers", tests, NULL, NULL);
}
