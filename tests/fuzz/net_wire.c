/*
 * Any bytes at all as what two ends of the NCCL plugin tell each other, the handle that NCCL carries
 * and the payloads of GREET, ACCEPT and POST: refused with a reason, or decoded into what encodes to
 * the same again.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/input.h"
#include "worker/nccl_plugin/net/wire.h"

static void decode_handle(const uint8_t *bytes, size_t length)
{
	uint8_t handle[SMD_NET_HANDLE_BYTES] = {0};
	uint8_t first[SMD_NET_HANDLE_BYTES];
	uint8_t again[SMD_NET_HANDLE_BYTES];
	struct smd_error error = {""};
	struct smd_net_handle out;
	int ret;

	memcpy(handle, bytes, length < sizeof(handle) ? length : sizeof(handle));
	ret = smd_net_handle_decode(handle, &out, &error);
	check_outcome(ret, &error);
	if (ret == 0) { /* what is left of a handle may be anything */
		smd_net_handle_encode(&out, first);
		must_hold(smd_net_handle_decode(first, &out, &error) == 0);
		smd_net_handle_encode(&out, again);
		must_hold(memcmp(first, again, sizeof(first)) == 0);
		must_hold(memcmp(first, handle, 28) == 0);
	}
}

static void decode_payloads(const uint8_t *bytes, size_t length)
{
	uint8_t again[SMD_CONTROL_MAX];
	struct smd_error errors[3] = {{""}};
	char name[SMD_NET_NAME_MAX];
	struct smd_net_greet greet;
	struct smd_net_post post;
	int ret = smd_net_greet_decode(bytes, length, &greet, &errors[0]);

	check_outcome(ret, &errors[0]);
	must_hold(ret || smd_net_greet_encode(&greet, again) == length);
	must_hold(ret || memcmp(again, bytes, length) == 0);
	ret = smd_net_accept_decode(bytes, length, name, &errors[1]);
	check_outcome(ret, &errors[1]);
	must_hold(ret || smd_net_accept_encode(name, again) == length);
	ret = smd_net_post_decode(bytes, length, &post, &errors[2]);
	check_outcome(ret, &errors[2]);
	must_hold(ret || smd_net_post_encode(&post, again) == length);
	must_hold(ret || memcmp(again, bytes, length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	uint8_t *exact = input_exact(bytes, length);

	decode_handle(exact, length);
	decode_payloads(exact, length < SMD_CONTROL_MAX ? length : SMD_CONTROL_MAX);
	free(exact);
	return 0;
}
