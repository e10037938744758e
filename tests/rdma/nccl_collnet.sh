#!/usr/bin/env bash
# CollNet over RDMA: scenarios of tests/nccl_proxy/collnet_driver.c with servers on an RDMA device.
set -uo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
exec "$SUMMAND_SOURCE/tools/rdma-vm" --memory=4096 --timeout=1100 \
	--program="$SUMMAND_BUILD/tests/collnet_driver" --program="$SUMMAND_BUILD/bin/summand-reduction-server" \
	--add="$SUMMAND_BUILD/lib" --env=SUMMAND_BUILD="$SUMMAND_BUILD" \
	-- "$here/inside/nccl_collnet" operations bounce windows server_dies rank_dies pending
