#!/usr/bin/env bash
# No file names a transport's ops but the table and the transport's own: the others choose by name and capability.
set -euo pipefail
cd "$SUMMAND_SOURCE"
ops='smd_transport_(tcp|rdma|loopback|fault)\b'

[ "$(grep -cE "&$ops" reduction_server/transport/transports.c)" -eq 4 ] ||
	{ echo "transports.c must have the four transports that this test looks for"; exit 1; }
outside=$(grep -rnE "$ops" reduction_server worker orchestrator |
	grep -vE '^reduction_server/transport/(tcp/|rdma/|testing/|transports\.[ch]:)' || true)
if [ -n "$outside" ]; then
	echo "a transport is named outside its folder and the table:"
	echo "$outside"
	exit 1
fi
