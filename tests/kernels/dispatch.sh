#!/usr/bin/env bash
# SUMMAND_CPU chooses a variant of the kernels, a lower one where it cannot, and warns when it does not.
#
#   dispatch.sh CHECKER...    the command that starts check_kernels
set -uo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# choice WANTED VARIANT WARNING: SUMMAND_CPU=WANTED must give VARIANT, and a warning with this text, or none.
choice() {
	local got

	got=$(SUMMAND_CPU=$1 "${checker[@]}" chosen 2>"$scratch/warning")
	if [ "$got" != "$2" ]; then
		echo "FAILED: SUMMAND_CPU=$1: must choose $2, got ${got:-nothing}"
		failures=$((failures + 1))
	fi
	if [ -n "$3" ] && ! grep -qF "$3; using $2" "$scratch/warning"; then
		echo "FAILED: SUMMAND_CPU=$1: must warn \"$3; using $2\", got: $(cat "$scratch/warning")"
		failures=$((failures + 1))
	fi
	if [ -z "$3" ] && [ -s "$scratch/warning" ]; then
		echo "FAILED: SUMMAND_CPU=$1: must say nothing, got: $(cat "$scratch/warning")"
		failures=$((failures + 1))
	fi
}

checker=("$@")
unset SUMMAND_CPU SUMMAND_LOG
mapfile -t runs < <("${checker[@]}" list)
echo "variants that run: ${runs[*]}"
best=${runs[-1]}
[ "$("${checker[@]}" chosen 2>&1)" = "$best" ] || {
	echo "FAILED: without SUMMAND_CPU: must choose $best"
	failures=$((failures + 1))
}

# In the order of kernels.h: what cannot run gives way to the one before it that can.
lower=scalar
for variant in scalar avx2 avx512 neon; do
	if printf '%s\n' "${runs[@]}" | grep -qxF "$variant"; then
		lower=$variant
		choice "$variant" "$variant" ""
	else
		choice "$variant" "$lower" "this processor cannot run $variant"
	fi
done
choice "" "$best" ""
for wanted in sse9 AVX2 "avx2 " avx; do
	choice "$wanted" "$best" "must be scalar, avx2, avx512 or neon, got \"$wanted\""
done

[ "$failures" = 0 ]
