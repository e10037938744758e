/* Ports: two holders never have the same one, and one that is in use is nobody's. */
#include "worker/agent/host/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 20

static void reserve(struct smd_ports *ports, uint16_t *port)
{
	struct smd_error error = {""};

	assert_int_equal(smd_ports_reserve(ports, port, &error), 0);
	assert_in_range(*port, SMD_PORT_FIRST, SMD_PORT_LAST);
}

static void test_holders_do_not_collide(void **state)
{
	struct smd_ports holders[2] = {{0}};
	uint16_t ports[2 * COUNT];

	(void)state;
	for (int i = 0; i < 2 * COUNT; i++) {
		reserve(&holders[i % 2], &ports[i]);
		for (int j = 0; j < i; j++) {
			assert_int_not_equal(ports[i], ports[j]);
		}
	}
	smd_ports_release(&holders[0]);
	smd_ports_release(&holders[1]);
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static void test_a_port_in_use_is_passed_over(void **state)
{
	struct smd_ports holder = {0};
	uint16_t used, next;
	int fd;

	(void)state;
	reserve(&holder, &used);
	fd = listen_on(used);
	smd_ports_release(&holder); /* given up, but the listener is still there */
	reserve(&holder, &next);
	assert_int_not_equal(next, used);
	close(fd);
	smd_ports_release(&holder);
}

static void test_none_is_left(void **state)
{
	struct smd_ports holder = {0};
	struct smd_error error = {""};
	uint16_t port;

	(void)state;
	holder.tried = SMD_PORT_LAST - SMD_PORT_FIRST + 1;
	assert_int_equal(smd_ports_reserve(&holder, &port, &error), -EADDRINUSE);
	assert_string_equal(error.text, "ports 20000 to 29999: one must be free, got none");
	smd_ports_release(&holder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holders_do_not_collide),
		cmocka_unit_test(test_a_port_in_use_is_passed_over),
		cmocka_unit_test(test_none_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
