/* Counts the losses of a reduction server, and bounds its restarts. */
#include "orchestrator/runner/loss.h"

#include "reduction_server/base/clock.h"

static int backoff_s(unsigned restarts)
{
	int wait_s = 1;

	while (restarts-- > 0 && wait_s < SMD_LOSS_BACKOFF_MAX_S) {
		wait_s *= 2;
	}
	return wait_s < SMD_LOSS_BACKOFF_MAX_S ? wait_s : SMD_LOSS_BACKOFF_MAX_S;
}

int smd_loss_take(struct smd_loss *loss, uint64_t now_ns, unsigned max)
{
	if (loss->count == 0 ||
		now_ns - loss->first_ns >= SMD_LOSS_WINDOW_S * (uint64_t)SMD_SECOND_NS) {
		loss->first_ns = now_ns;
		loss->restarts = 0;
	}
	loss->count++;
	loss->last_ns = now_ns;
	loss->is_late = 0;
	return loss->restarts < max ? backoff_s(loss->restarts++) : -1;
}
