#!/usr/bin/env bash
# The orchestrator's benchmark runs jobs to their end and says what it measured; how long that took is not judged.
set -euo pipefail

bench="${SUMMAND_SOURCE:?must name the source directory}/tools/bench-orchestrator"
build="${SUMMAND_BUILD:?must name the build directory}"

"$bench" --build="$build" --replicas=8 --variables=20 --megabytes=1 --jobs=50 --lines=2000 --rounds=1 --json |
	python3 -c '
import json, sys
rows = {row["what"]: row for row in json.load(sys.stdin)["results"]}
assert rows["summand local-run"]["count"] == 8
assert rows["summand local-run"]["ratio"] > 0 and rows["summand local-run"]["peak_mib"] > 0
assert rows["summand local-run, lines"]["count"] == 2000
assert "summand validate, MB" in rows
assert rows["summand list"]["count"] == 50 and rows["summand list"]["cpu_seconds"] > 0
'
status=0
"$bench" --build="$build" --replicas=none 2>/dev/null || status=$?
[ "$status" = 2 ]
status=0
"$bench" --build=/nonexistent --replicas=1 2>/dev/null >&2 || status=$?
[ "$status" = 1 ]
