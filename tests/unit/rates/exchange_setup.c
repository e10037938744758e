/* Simulates operations, each of which the choice is told of. */
#include "tests/unit/rates/exchange_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

const struct network network_faster = {2 * MS, 1 * MS};
const struct network network_same = {2 * MS, 2 * MS};
const struct network network_slower = {2 * MS, 3 * MS};

struct smd_exchange_choice choice;
uint64_t now_ns;

void network_start(bool possible, bool always)
{
	smd_exchange_choice_begin(&choice, possible, always, 0);
	choice.doubt_pause_ns = NEVER;
	now_ns = SMD_SECOND_NS;
}

void network_took(uint64_t bytes, bool exchanged, uint64_t ns, uint64_t then_ns)
{
	smd_exchange_choice_took(
		&choice, smd_exchange_kind(bytes, false), bytes, exchanged, ns, then_ns);
}

bool network_operate_together(const struct network *network, uint64_t bytes, unsigned operations)
{
	bool exchanged = bytes <= choice.limit;
	uint64_t ns = operations * (exchanged ? network->exchange_ns : network->servers_ns);

	now_ns += ns;
	smd_exchange_choice_missed(&choice, operations, now_ns);
	smd_exchange_choice_took(&choice, smd_exchange_kind(bytes, operations > 1),
		operations * bytes, exchanged, ns, now_ns);
	if (smd_exchange_choice_want(&choice, now_ns)) {
		smd_exchange_choice_applied(&choice, now_ns);
		return true;
	}
	return false;
}

bool network_operate(const struct network *network, uint64_t bytes)
{
	return network_operate_together(network, bytes, 1);
}

unsigned network_run_together(
	const struct network *network, uint64_t bytes, unsigned operations, unsigned times)
{
	unsigned changes = 0;

	for (unsigned i = 0; i < times; i++) {
		changes += network_operate_together(network, bytes, operations);
	}
	return changes;
}

unsigned network_run(const struct network *network, uint64_t bytes, unsigned operations)
{
	return network_run_together(network, bytes, 1, operations);
}

unsigned network_run_until_changed(const struct network *network, uint64_t bytes)
{
	unsigned operations = 1;

	while (!network_operate(network, bytes)) {
		operations++;
		assert_in_range(operations, 1, 1000000);
	}
	return operations;
}
