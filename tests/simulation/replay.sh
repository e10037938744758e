#!/usr/bin/env bash
# replay.sh SIMULATE: a seed gives the same history to the step, however often it is run, and another one another.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# tell SIMULATE KIND SEED: all that is said of it, but how long it took and which seed it is.
tell() {
	"$1" ${2:+"$2"} "$3" | sed '$d; s/^seed [0-9]*//'
}

for kind in "" changes late more large; do
	tell "$1" "$kind" 31 >"$scratch/first"
	tell "$1" "$kind" 31 >"$scratch/second"
	tell "$1" "$kind" 32 >"$scratch/other"
	grep -q ' steps, ' "$scratch/first"
	diff "$scratch/first" "$scratch/second"
	if cmp -s "$scratch/first" "$scratch/other"; then
		echo "replay: seeds 31 and 32 of $kind must not be the same history"
		exit 1
	fi
done
