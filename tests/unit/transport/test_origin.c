/*
 * Several addresses of one server, and which of them lies behind an interface.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <string.h>

#include "reduction_server/transport/loop.h"
#include "reduction_server/transport/origin.h"
#include "reduction_server/transport/transports.h"

static struct smd_origin loopback(void)
{
	struct smd_origin origin = {.interface = "lo", .length = sizeof(struct sockaddr_in)};
	struct sockaddr_in *in = (struct sockaddr_in *)&origin.address;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return origin;
}

static void test_addresses(void **state)
{
	char long_one[SMD_ADDRESS_LONGEST + 16];
	char address[SMD_ADDRESS_LONGEST];
	char many[17 * 8] = "";

	(void)state;
	assert_true(smd_addresses_get("a:1+[::1]:2", 0, address));
	assert_string_equal(address, "a:1");
	assert_true(smd_addresses_get("a:1+[::1]:2", 1, address));
	assert_string_equal(address, "[::1]:2");
	assert_false(smd_addresses_get("a:1+[::1]:2", 2, address));
	assert_false(smd_addresses_get("", 0, address));
	assert_int_equal(smd_addresses_check("a:1"), 0);
	assert_int_equal(smd_addresses_check("a:1+b:0+[::1]:3"), 0);
	assert_int_equal(smd_addresses_check(""), -EINVAL);
	assert_int_equal(smd_addresses_check("a:1+"), -EINVAL);
	assert_int_equal(smd_addresses_check("+a:1"), -EINVAL);
	assert_int_equal(smd_addresses_check("a:1++b:1"), -EINVAL);
	assert_int_equal(smd_addresses_check("a:1+b"), -EINVAL);
	memset(long_one, 'a', sizeof(long_one));
	strcpy(long_one + sizeof(long_one) - 3, ":1");
	assert_int_equal(smd_addresses_check(long_one), -EINVAL);
	for (int i = 0; i < SMD_ADDRESSES_MAX; i++) {
		strcat(many, i ? "+a:1" : "a:1");
	}
	assert_int_equal(smd_addresses_check(many), 0);
	strcat(many, "+a:1");
	assert_int_equal(smd_addresses_check(many), -EINVAL);
}

static void test_reaches(void **state)
{
	const struct smd_origin origin = loopback();
	const struct smd_origin none = {.interface = ""};
	struct smd_origin other = origin;

	(void)state;
	assert_true(smd_origin_reaches(&origin, "127.9.8.7:1")); /* 127.0.0.0/8 */
	assert_false(smd_origin_reaches(&origin, "192.0.2.1:1"));
	assert_false(smd_origin_reaches(&origin, "[::1]:1"));     /* not by that address */
	assert_false(smd_origin_reaches(&origin, "localhost:1")); /* that needs a resolver */
	assert_false(smd_origin_reaches(&none, "127.0.0.1:1"));
	assert_false(smd_origin_reaches(NULL, "127.0.0.1:1"));
	((struct sockaddr_in *)&other.address)->sin_addr.s_addr = htonl(0xc0000201);
	assert_false(smd_origin_reaches(&other, "192.0.2.1:1")); /* lo does not have it */
}

static void test_choose(void **state)
{
	const struct smd_origin origin = loopback();
	char address[SMD_ADDRESS_LONGEST];

	(void)state;
	smd_origin_choose(&origin, "192.0.2.1:1+127.0.0.2:2+127.0.0.3:3", address);
	assert_string_equal(address, "127.0.0.2:2");
	smd_origin_choose(&origin, "192.0.2.1:1+198.51.100.1:2", address);
	assert_string_equal(address, "192.0.2.1:1");
	smd_origin_choose(NULL, "192.0.2.1:1+127.0.0.2:2", address);
	assert_string_equal(address, "192.0.2.1:1");
}

/* Of two servers the second one begins half of them further on. */
static void test_turns(void **state)
{
	static const char *const addresses = "240.0.0.1:1+127.0.0.2:2+name:5+127.0.0.3:3";
	static const char *const expected[2][3] = {{"127.0.0.2:2", "127.0.0.3:3", "127.0.0.2:2"},
		{"127.0.0.3:3", "127.0.0.2:2", "127.0.0.3:3"}};
	char address[SMD_ADDRESS_LONGEST];

	(void)state;
	for (unsigned server = 0; server < 4; server++) {
		for (uint32_t turn = 0; turn < 3; turn++) {
			assert_true(smd_origin_take_turn(addresses, server, turn, address));
			assert_string_equal(address, expected[server % 2][turn]);
		}
	}
	assert_false(smd_origin_take_turn("240.0.0.1:1+name:5", 0, 0, address));
}

/* A server may have so many, and all near. */
static void test_most_turns(void **state)
{
	char addresses[SMD_ADDRESSES_MAX * 16] = "";
	char address[SMD_ADDRESS_LONGEST];
	char expected[16];

	(void)state;
	for (unsigned i = 0; i < SMD_ADDRESSES_MAX; i++) {
		sprintf(addresses + strlen(addresses), "%s127.0.0.%u:1", i ? "+" : "", i + 1);
	}
	for (uint32_t turn = 0; turn < SMD_ADDRESSES_MAX; turn++) {
		assert_true(smd_origin_take_turn(addresses, 0, turn, address));
		sprintf(expected, "127.0.0.%u:1", turn + 1);
		assert_string_equal(address, expected);
	}
}

/* ---- a connection ---- */

static void on_accept(void *owner, struct smd_lane *lane, int shard)
{
	(void)shard;
	assert_memory_equal(smd_lane_peer_name(lane), "127.0.0.9:", 10);
	*(bool *)owner = true;
	smd_lane_close(lane);
}

static void on_open(void *owner)
{
	(void)owner;
}

static void on_closed(void *owner, int err, const char *reason)
{
	(void)err;
	(void)reason;
	*(bool *)owner = true;
}

/* The other end sees the origin's address. */
static void test_connection(void **state)
{
	static const struct smd_lane_callbacks callbacks = {
		.on_open = on_open, .on_closed = on_closed};
	struct event_base *base = smd_loop_create();
	struct smd_origin origin = loopback();
	struct smd_listener *listener;
	struct smd_error error = {""};
	struct smd_lane *lane;
	bool accepted = false;
	bool closed = false;
	char bound[128];

	(void)state;
	((struct sockaddr_in *)&origin.address)->sin_addr.s_addr = htonl(0x7f000009);
	assert_non_null(base);
	assert_int_equal(smd_transport_tcp.listen(base, "127.0.0.1:0", on_accept, &accepted,
				 &listener, bound, &error),
		0);
	assert_int_equal(smd_transport_tcp.connect(
				 base, bound, &origin, 0, &callbacks, &closed, &lane, &error),
		0);
	while (!accepted) {
		assert_int_not_equal(event_base_loop(base, EVLOOP_ONCE), -1);
	}
	smd_lane_close(lane);
	smd_listener_close(listener);
	/* A lane that is closed before it is open is freed by the loop's next turn. */
	assert_int_not_equal(event_base_loop(base, EVLOOP_NONBLOCK), -1);
	((struct sockaddr_in *)&origin.address)->sin_addr.s_addr = htonl(0xc0000201);
	assert_int_equal(smd_transport_tcp.connect(
				 base, bound, &origin, 0, &callbacks, &closed, &lane, &error),
		-EADDRNOTAVAIL);
	assert_non_null(strstr(error.text, "cannot connect from lo"));
	smd_loop_free(base);
}

/* To name the interface takes a system call that a server must not make (sandbox/). */
static void test_scopes_are_numbers(void **state)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(41873)};
	char text[SMD_ADDRESS_TEXT_MAX];

	(void)state;
	assert_int_equal(inet_pton(AF_INET6, "fe80::2", &address.sin6_addr), 1);
	address.sin6_scope_id = 1;
	smd_address_print((struct sockaddr *)&address, sizeof(address), text);
	assert_string_equal(text, "[fe80::2%1]:41873");
	address.sin6_scope_id = 0;
	smd_address_print((struct sockaddr *)&address, sizeof(address), text);
	assert_string_equal(text, "[fe80::2]:41873");
	assert_int_equal(inet_pton(AF_INET6, "2001:db8::7", &address.sin6_addr), 1);
	smd_address_print((struct sockaddr *)&address, sizeof(address), text);
	assert_string_equal(text, "[2001:db8::7]:41873");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_scopes_are_numbers),
		cmocka_unit_test(test_reaches),
		cmocka_unit_test(test_choose),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_most_turns),
		cmocka_unit_test(test_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
