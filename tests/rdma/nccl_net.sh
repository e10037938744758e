#!/usr/bin/env bash
# The NCCL plugin's point-to-point network over RDMA: the driver of functional.nccl_net, and what it does
# where the other end has no RDMA.
set -uo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
exec "$SUMMAND_SOURCE/tools/rdma-vm" --memory=4096 --timeout=1100 \
	--program="$SUMMAND_BUILD/tests/net_driver" --add="$SUMMAND_BUILD/lib" \
	--env=SUMMAND_BUILD="$SUMMAND_BUILD" --env=SUMMAND_SANITIZE="${SUMMAND_SANITIZE:-}" -- "$here/inside/nccl_net"
