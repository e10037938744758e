/* Any bytes at all as the invitation of an agent, and as a file of hosts. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "orchestrator/engine/ssh/hostfile.h"
#include "tests/fuzz/input.h"
#include "worker/agent/wire/invitation.h"

static void read_hosts(const uint8_t *bytes, size_t length)
{
	static char path[] = "/dev/shm/fuzz-hosts.XXXXXX";
	struct smd_hostfile *hosts = NULL;
	struct smd_error error = {""};
	int fd;

	memcpy(path + strlen(path) - 6, "XXXXXX", 6);
	fd = mkstemp(path);
	must_hold(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
	close(fd);
	if (smd_hostfile_open(&hosts, path, &error)) {
		must_hold(error.text[0] != '\0' && !hosts);
	}
	for (size_t i = 0; hosts && i < hosts->count; i++) {
		const struct smd_hostfile_line *line = &hosts->lines[i];

		must_hold(line->host[0] && line->host[0] != '-' && line->slots > 0);
	}
	smd_hostfile_close(hosts);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct smd_invitation invitation;
	struct smd_error error = {""};

	if (smd_invitation_decode((const char *)bytes, length, &invitation, &error)) {
		must_hold(error.text[0] != '\0');
	} else if (invitation.protocol == SMD_AGENT_PROTOCOL) {
		must_hold(invitation.host >= 0 &&
			  invitation.naddresses <= SMD_INVITATION_ADDRESSES);
		must_hold(!invitation.is_tcp || invitation.naddresses > 0);
	}
	read_hosts(bytes, length);
	return 0;
}
