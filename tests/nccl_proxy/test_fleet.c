/* The fleet itself: it carries bytes, sees every failure, and ends what hangs. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl_proxy/fleet.h"

static void gather(struct fleet_node *node)
{
	int all[5] = {0};

	for (int round = 0; round < 100; round++) {
		int mine = 1000 * round + node->rank + 1;

		fleet_gather(node, &mine, sizeof(mine), all);
		for (int r = 0; r < node->nnodes; r++) {
			CHECK_EQUAL(all[r], 1000 * round + r + 1);
		}
	}
}

static void lose_one(struct fleet_node *node)
{
	int mine = node->rank + 1;
	int all[3];

	if (node->rank == 1) {
		raise(SIGKILL);
	}
	fleet_gather(node, &mine, sizeof(mine), all);
	CHECK_EQUAL(all[0], 1);
	CHECK_EQUAL(all[1], 0);
	CHECK_EQUAL(all[2], 3);
}

static void fail_one(struct fleet_node *node)
{
	fleet_doing("what is told when it fails");
	CHECK(node->rank != 1);
	fleet_barrier(node);
}

static void hang_one(struct fleet_node *node)
{
	fleet_doing("what is told when it hangs");
	if (node->rank == 1) {
		pause();
	}
	fleet_barrier(node);
}

static int failed;

static void expect(bool good, const char *name, struct fleet fleet)
{
	if (fleet_run(&fleet) != good) {
		printf("%s: must be %s\n", name, good ? "good" : "found out");
		failed = 1;
	}
}

int main(void)
{
	expect(true, "gather", (struct fleet){.nnodes = 5, .seconds = 60, .body = gather});
	expect(true, "lose one",
		(struct fleet){.nnodes = 3, .seconds = 60, .body = lose_one, .killed = 1 << 1});
	puts("four fleets with failures that must be found out:");
	expect(false, "nobody killed",
		(struct fleet){.nnodes = 2, .seconds = 60, .body = gather, .killed = 1 << 1});
	expect(false, "one killed", (struct fleet){.nnodes = 3, .seconds = 60, .body = lose_one});
	expect(false, "one fails", (struct fleet){.nnodes = 3, .seconds = 60, .body = fail_one});
	expect(false, "one hangs", (struct fleet){.nnodes = 3, .seconds = 1, .body = hang_one});
	return failed;
}
