#!/usr/bin/env bash
# What goes wrong on RDMA lanes while operations are going on: every end is named and nothing hangs; which transport a
# lane takes, and why; what an idle server costs.
set -uo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
exec "$SUMMAND_SOURCE/tools/rdma-vm" --memory=4096 --timeout=600 --program="$SUMMAND_BUILD/bin/summand-perf" \
	--program="$SUMMAND_BUILD/bin/summand-reduction-server" --program=setpriv --env=BUILD="$SUMMAND_BUILD" -- "$here/inside/failures"
