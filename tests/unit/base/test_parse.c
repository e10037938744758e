/* Values that people write: what is accepted, and that anything else leaves the result alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "reduction_server/base/parse.h"

static void sizes(void **state)
{
	uint64_t size = 7;

	(void)state;
	assert_int_equal(smd_parse_size("4096", &size), 0);
	assert_int_equal(size, 4096);
	assert_int_equal(smd_parse_size("64K", &size), 0);
	assert_int_equal(size, 65536);
	assert_int_equal(smd_parse_size("4GiB", &size), 0);
	assert_int_equal(size, 4ull << 30);
}

static void bad_sizes_leave_the_result_alone(void **state)
{
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 K", "K", "1KB", "99999999999999999999",
		"20000000000G"};
	uint64_t size = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(smd_parse_size(bad[i], &size), -EINVAL);
		assert_int_equal(size, 7);
	}
}

static void bandwidths(void **state)
{
	uint64_t mbps = 7;

	(void)state;
	assert_int_equal(smd_parse_bandwidth("25gbps", &mbps), 0);
	assert_int_equal(mbps, 25000);
	assert_int_equal(smd_parse_bandwidth("750Mbps", &mbps), 0);
	assert_int_equal(mbps, 750);
	assert_int_equal(smd_parse_bandwidth("0gbps", &mbps), -EINVAL);
}

static void shares(void **state)
{
	static const char *const bad[] = {"", "5", "/14", "5/", "0/14", "5/0", "5 /14", "5/14 ", "-5/14",
		"5/14/3", "1000001/1", "1/1000001", "0.5/1"};
	struct smd_share share = {7, 8};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(smd_parse_share(bad[i], &share), -EINVAL);
		assert_int_equal(share.part * 10 + share.whole, 78);
	}
	assert_int_equal(smd_parse_share("5/14", &share), 0);
	assert_int_equal(share.part * 100 + share.whole, 514);
	assert_int_equal(smd_parse_share("1000000/1", &share), 0);
	assert_int_equal(share.part, 1000000);
}

static void milliseconds(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {{"15", 15000}, {"0.5s", 500}, {"500ms", 500}, {"1.25", 1250}, {"2S", 2000},
		{"0.001", 1}, {"20000MS", 20000}};
	static const char *const bad[] = {"", "s", "-1", "0.5ms", "1.", ".5", "1.2345", "1 s", "1m",
		"0", "0.000s", "20.001", "20001ms", "18446744073709551615", "1.s"};
	uint64_t ms = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(smd_parse_milliseconds(good[i].text, 1, 20000, &ms), 0);
		assert_int_equal(ms, good[i].ms);
	}
	ms = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(smd_parse_milliseconds(bad[i], 1, 20000, &ms), -EINVAL);
		assert_int_equal(ms, 7);
	}
}

static void endpoints(void **state)
{
	char host[16];
	uint16_t port;

	(void)state;
	assert_int_equal(smd_parse_endpoint("10.0.0.1:4000", host, sizeof(host), &port), 0);
	assert_string_equal(host, "10.0.0.1");
	assert_int_equal(port, 4000);
	assert_int_equal(smd_parse_endpoint("[::1]:80", host, sizeof(host), &port), 0);
	assert_string_equal(host, "::1");
	assert_int_equal(smd_parse_endpoint("::1:80", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(smd_parse_endpoint("host", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(smd_parse_endpoint("host:65536", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(smd_parse_endpoint(":1", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(smd_parse_endpoint("a-host-name-too-long:1", host, sizeof(host), &port), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
		cmocka_unit_test(bad_sizes_leave_the_result_alone),
		cmocka_unit_test(bandwidths),
		cmocka_unit_test(shares),
		cmocka_unit_test(milliseconds),
		cmocka_unit_test(endpoints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
