#!/usr/bin/env bash
# Every shell script of the project parses, and shellcheck has nothing to say about it.
set -uo pipefail

cd "${SUMMAND_SOURCE:?must name the source directory}" || exit 1
failures=0

# The corpora's golden files are a program's output, not scripts.
mapfile -t scripts < <(grep -rlE --exclude-dir=build --exclude-dir='build-*' --exclude-dir=.git \
	'^#!(/usr)?/bin/(env )?(ba)?sh' . | sort)
[ "${#scripts[@]}" -gt 0 ] || exit 1
for script in "${scripts[@]}"; do
	bash -n "$script" || failures=$((failures + 1))
	if [ ! -x "$script" ]; then
		echo "FAILED: $script must be executable"
		failures=$((failures + 1))
	fi
done
[ "$failures" = 0 ] || exit 1
if ! command -v shellcheck >/dev/null; then
	echo "skipped: ${#scripts[@]} scripts parse, but shellcheck is not here to look closer"
	exit 77
fi
shellcheck -x -S warning "${scripts[@]}"
