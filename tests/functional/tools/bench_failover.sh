#!/usr/bin/env bash
# A server is killed, stopped, drained and added while ranks reduce, and the tool says a stall of each; how long it was is not judged.
set -euo pipefail

bench="${SUMMAND_SOURCE:?must name the source directory}/tools/bench-failover"
build="${SUMMAND_BUILD:?must name the build directory}"

"$bench" --build="$build" --ranks=2 --rounds=1 --by=kill,stop,drain,join --json |
	python3 -c '
import json, sys
done = json.load(sys.stdin)
assert done["ranks"] == 2 and set(done["results"]) == {"kill", "stop", "drain", "join"}, done
assert all(len(result["stalls_ms"]) == 1 for result in done["results"].values()), done
'
for wrong in --by=magic --servers=1 --limit=soon --color; do
	status=0
	"$bench" --build="$build" $wrong 2>/dev/null || status=$?
	[ "$status" = 2 ]
done
status=0
"$bench" --build=/nonexistent 2>/dev/null >&2 || status=$?
[ "$status" = 1 ]
