#!/usr/bin/env bash
# The benchmark of many hosts runs jobs to their end over agents and on a Slurm cluster; how long that took is not judged, but
# memory is: the variables of a large job must not be made before they can be sent.
set -euo pipefail

bench="${SUMMAND_SOURCE:?must name the source directory}/tools/bench-hosts"
build="${SUMMAND_BUILD:?must name the build directory}"

"$bench" --build="$build" --agents=20 --agent-replicas=1000 --nodes=0 --rounds=1 --json |
	python3 -c '
import json, sys
row, = json.load(sys.stdin)["results"]
assert (row["hosts"], row["count"]) == (20, 1000), row
assert 0 < row["peak_mib"] < 25, row
'
status=0
"$bench" --build="$build" --agents=0 --nodes=2 --node-replicas=4 --rounds=1 --json >"${TMPDIR:-/tmp}/bench-hosts.$$" || status=$?
trap 'rm -f "${TMPDIR:-/tmp}/bench-hosts.$$"' EXIT
if [ "$status" = 77 ]; then
	exit 77
fi
python3 - "${TMPDIR:-/tmp}/bench-hosts.$$" <<'END'
import json, sys
with open(sys.argv[1]) as file:
    rows = {row["what"]: row for row in json.load(file)["results"]}
assert rows["Slurm: summand local-run"]["ratio"] > 0 and rows["Slurm: srun, two components"]["ratio"] == 1, rows
END
status=0
"$bench" --build="$build" --nodes=3 --node-replicas=2 2>/dev/null || status=$?
[ "$status" = 2 ]
status=0
"$bench" --build=/nonexistent --agents=1 --agent-replicas=1 --nodes=0 2>/dev/null >&2 || status=$?
[ "$status" = 1 ]
