/* Counts what was in vain. */
#include "worker/libsummand/fabric.h"

enum smd_fabric_news smd_fabric_in_vain(
	struct smd_fabric *fabric, struct smd_far_end *end, bool used)
{
	end->vain++;
	if (end->silent || (used && end->vain < SMD_FABRIC_VAIN_LANES)) {
		return SMD_FABRIC_NO_NEWS;
	}
	end->silent = true;
	if (fabric->silent) {
		return SMD_FABRIC_NO_NEWS;
	}
	fabric->vain += !end->counted;
	end->counted = true;
	fabric->silent = fabric->vain >= SMD_FABRIC_VAIN_ENDS && !fabric->crosses;
	return fabric->silent ? SMD_FABRIC_SILENT : SMD_FAR_END_SILENT;
}

/* What was in vain before had another reason, which has passed. */
void smd_fabric_crosses(struct smd_fabric *fabric, struct smd_far_end *end)
{
	fabric->crosses = true;
	fabric->silent = false;
	end->vain = 0;
}

bool smd_fabric_is_silent(const struct smd_fabric *fabric, const struct smd_far_end *end)
{
	return fabric->silent || end->silent;
}

void smd_far_end_returns(struct smd_far_end *end)
{
	end->silent = false;
	end->vain = 0;
}
