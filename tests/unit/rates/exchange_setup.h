/* What tests of exchange_choice.h begin with: a network that is simulated, in which an operation
 * takes so long by servers, and so long as an exchange. */
#ifndef SMD_TESTS_EXCHANGE_SETUP_H
#define SMD_TESTS_EXCHANGE_SETUP_H

#include <stdbool.h>
#include <stdint.h>

#include "reduction_server/base/clock.h"
#include "worker/libsummand/exchange_choice.h"

#define NEVER (1000000 * SMD_SECOND_NS)
#define FIRST 3 /* times by servers, for the first trial of a kind */

enum { SMALL = 4096, LARGE = 1 << 20, US = 1000, MS = 1000 * US };

struct network {
	uint64_t servers_ns;
	uint64_t exchange_ns;
};

/* 2 ms by servers; as exchanges 1, 2 and 3. */
extern const struct network network_faster;
extern const struct network network_same;
extern const struct network network_slower;

extern struct smd_exchange_choice choice;
extern uint64_t now_ns;

/* At one second. Nothing is doubted by itself. */
void network_start(bool possible, bool always);

/* An operation that was in flight alone. */
void network_took(uint64_t bytes, bool exchanged, uint64_t ns, uint64_t then_ns);

/* So many operations, which end together; whether the limit has changed after them. */
bool network_operate_together(const struct network *network, uint64_t bytes, unsigned operations);
bool network_operate(const struct network *network, uint64_t bytes);

/* How often it has changed after so many times so many operations. */
unsigned network_run_together(
	const struct network *network, uint64_t bytes, unsigned operations, unsigned times);
unsigned network_run(const struct network *network, uint64_t bytes, unsigned operations);

/* Operations until it changes. */
unsigned network_run_until_changed(const struct network *network, uint64_t bytes);

#endif
