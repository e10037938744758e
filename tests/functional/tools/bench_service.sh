#!/usr/bin/env bash
# The service's benchmark asks a service of its own, and says what it measured; how long that took is not judged.
set -euo pipefail

bench="${SUMMAND_SOURCE:?must name the source directory}/tools/bench-service"
build="${SUMMAND_BUILD:?must name the build directory}"
status=0

"$bench" --build="$build" --nonsense 2>/dev/null || status=$?
[ "$status" = 2 ]
status=0
said=$("$bench" --build="$build" --jobs=50 --creators=2 --followers=5 --seconds=1 --json) || status=$?
[ "$status" != 77 ] || exit 77
[ "$status" = 0 ]
python3 -c '
import json, sys
rows = {row["what"]: row for row in json.load(sys.stdin)["results"]}
assert rows["create, durable"]["per_second"] > 0 and rows["create, durable"]["ratio"] > 0
assert rows["list 100 jobs"]["p50_ms"] > 0
assert rows["follow a log"]["peak_mib"] > 0
' <<<"$said"
status=0
"$bench" --build=/nonexistent 2>/dev/null >&2 || status=$?
[ "$status" = 1 ]
