#!/usr/bin/env bash
# The digits job with its reduction server over RDMA: it trains as over TCP, to the same weights.
set -uo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
arguments=(--memory=4096 --timeout=900 --add="$SUMMAND_BUILD/share")
for program in summand summand-agent summand-digits summand-reduction-server; do
	arguments+=("--program=$SUMMAND_BUILD/bin/$program")
done
exec "$SUMMAND_SOURCE/tools/rdma-vm" "${arguments[@]}" --env=BUILD="$SUMMAND_BUILD" -- "$here/inside/job"
