#!/usr/bin/env bash
# The tests of lanes and of the engine that run over TCP, over RDMA: all types and operations, windows,
# several communicators, ranks that disagree or end, the same bits as over TCP.
set -uo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
tests=(test_lane test_allreduce test_collectives test_groups test_misuse test_failures test_silence test_operations
	test_determinism test_data_path)
if [ "${SUMMAND_SANITIZE:-}" = address ]; then # several times slower; what is only larger is left out
	tests=(test_lane test_collectives test_groups test_misuse test_failures)
fi

arguments=(--memory=4096 --timeout=1100)
for test in "${tests[@]}"; do
	arguments+=("--program=$SUMMAND_BUILD/tests/$test")
done
exec "$SUMMAND_SOURCE/tools/rdma-vm" "${arguments[@]}" --env=BUILD="$SUMMAND_BUILD" \
	-- "$here/inside/engine" "${tests[@]}"
