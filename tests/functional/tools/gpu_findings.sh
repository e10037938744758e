#!/usr/bin/env bash
# What tools/gpu-check concludes from what its runs have left (tools/gpu/findings), on made-up folders: each
# claim must hold where it is true, and must not where it is false.
set -uo pipefail

cd "${SUMMAND_SOURCE:?must name the source directory}" || exit 1
# shellcheck source=tools/gpu/findings
. tools/gpu/findings
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
folder=$scratch/run
failures=0

# holds COMMAND...
holds() {
	"$@" >"$scratch/said" 2>&1 || {
		echo "FAILED: must hold: $*: $(cat "$scratch/said")"
		failures=$((failures + 1))
	}
}

# fails WHY COMMAND...
fails() {
	local why=$1

	shift
	if "$@" >"$scratch/said" 2>&1; then
		echo "FAILED: $why, and yet it holds: $*"
		failures=$((failures + 1))
	fi
}

# ---- a server that was lost ----

INFO='vm:1:2 [0] NCCL INFO NET/Summand'
WARN='[2026-11-21 18:55:20] vm:1:2 [0] libnccl-net-summand:0 NCCL WARN NET/Summand'
LOST='CollNet over 2 nodes (this is node 0): reduction server 127.0.0.1:4000 was lost: the other end closed'

# lost_folder: of two ranks that lost a server as they must.
lost_folder() {
	rm -rf "$folder"
	mkdir "$folder"
	for r in 0 1; do
		printf '%s\n' "$INFO: 0.1.0; net v6, tuner v2; servers 127.0.0.1:4000,127.0.0.1:4001; on" "$WARN: $LOST" \
			>"$folder/rank$r.nccl"
		echo "summand-nccl-perf: rank $r: all-reduce: remote process exited or there was a network error: $LOST" \
			>"$folder/rank$r.err"
	done
}

lost_folder
holds told_of_loss "$folder" 2 127.0.0.1:4000
holds failed_by_nccl "$folder" 2
fails "it is another server" told_of_loss "$folder" 2 127.0.0.1:4001
fails "it is another port" told_of_loss "$folder" 2 127.0.0.1:400
fails "there is no log of a third rank" told_of_loss "$folder" 3 127.0.0.1:4000
sed -i '/WARN/d' "$folder/rank1.nccl"
fails "rank 1 only began with that server" told_of_loss "$folder" 2 127.0.0.1:4000
lost_folder
echo "$INFO: libsummand: reduction server 127.0.0.1:4000 was lost: the other end closed" >"$folder/rank1.nccl"
fails "rank 1 was not warned" told_of_loss "$folder" 2 127.0.0.1:4000
lost_folder
echo "summand-nccl-perf: rank 1: all-reduce: unhandled system error (run with NCCL_DEBUG=INFO for details): $LOST" \
	>"$folder/rank1.err"
holds failed_by_nccl "$folder" 2
echo "summand-nccl-perf: no progress until the timeout, giving up" >>"$folder/rank0.err"
fails "rank 0 ended by its timeout" failed_by_nccl "$folder" 2
lost_folder
: >"$folder/rank1.err"
fails "rank 1 says nothing" failed_by_nccl "$folder" 2

# ---- what the servers did ----

# It is compared as a whole number, which mawk does not print of itself.
for i in 0 1; do
	echo "info  server: ended: 9 chunks reduced, 13628200005 bytes received, 7 bytes sent, 8 lanes" \
		>"$folder/server$i.err"
done
holds test "$(received "$folder")" = 27256400010

[ "$failures" = 0 ]
