#!/usr/bin/env bash
# More ranks than a byte counts form a communicator on real servers, and get a right sum; how long that took is not judged.
set -euo pipefail

bench="${SUMMAND_SOURCE:?must name the source directory}/tools/bench-scale"
build="${SUMMAND_BUILD:?must name the build directory}"

"$bench" --build="$build" --ranks=300 --shards=2 --servers=1 --idle=0 --json |
	python3 -c '
import json, sys
row, = json.load(sys.stdin)["results"]
assert row["ranks"] == 300 and row["lanes"] == 600, row
assert row["server_files"] == 600, row
assert 0 < row["connected_s"] <= row["up_s"] <= row["reduced_s"], row
assert row["server_kib_per_lane"] > 0 and row["rank_kib"] > 0, row
'
# The same of nodes of the NCCL plugin.
"$bench" --build="$build" --plugin --ranks=4 --shards=2 --servers=2 --times=2 --json |
	python3 -c '
import json, sys
row, = json.load(sys.stdin)["results"]
assert row["ranks"] == 4 and row["lanes"] == 8, row
assert 0 < row["agreed_s"] < row["all_s"] and row["sum_ms"] > 0, row
assert row["rank_kib"] > 0 and row["server_kib"] > 0 and row["node0_ms"] > 0, row
'
status=0
"$bench" --build="$build" --ranks=none 2>/dev/null || status=$?
[ "$status" = 2 ]
status=0
"$bench" --build=/nonexistent --ranks=2 2>/dev/null >&2 || status=$?
[ "$status" = 1 ]
