#!/usr/bin/env bash
# No file names a transport's ops but the table and the transport's own: the others choose by name and capability.
set -euo pipefail
cd "$SUMMAND_SOURCE"
folder=reduction_server/transport

mapfile -t names < <(sed -nE 's/^\t&smd_transport_([a-z]+),$/\1/p' $folder/transports.c)
[ "${#names[@]}" -ge 4 ] || { echo "$folder/transports.c must have rows, got: ${names[*]}"; exit 1; }
status=0
for name in "${names[@]}"; do
	outside=$(grep -rnw "smd_transport_$name" reduction_server worker orchestrator |
		grep -vE "^$folder/($name/|testing/$name(_[a-z]+)?\.c:|transports\.[ch]:)" || true)
	if [ -n "$outside" ]; then
		echo "$name is named outside its folder and the table:"
		echo "$outside"
		status=1
	fi
done
exit $status
