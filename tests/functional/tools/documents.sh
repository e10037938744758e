#!/usr/bin/env bash
# What README.md and the pages under specs name is there: files of the project, and tests.
# shellcheck disable=SC2016 # Backquotes are looked for.
set -uo pipefail

cd "${SUMMAND_SOURCE:?must name the source directory}" || exit 1
pages=(README.md specs/*/*.md)
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# Words in backquotes that begin like a path of the project; what follows a * or : is not looked at.
paths=$(grep -ohE '`(CMakeLists\.txt|(orchestrator|reduction_server|worker|specs|tests|tools|\.ci)/[^` ]*)`' \
	"${pages[@]}" | tr -d '`' | sort -u)
while read -r path; do
	[ -e "${path%%[:*]*}" ] || fail "$path is named, and must be there"
done <<<"$paths"

tests=$(ctest --test-dir "${SUMMAND_BUILD:?must name the build directory}" -N | sed -n 's/^ *Test *#[0-9]*: //p')
named=$(grep -ohE '`(unit|kernels|corpora|functional|fuzz)\.[a-z_]+`' "${pages[@]}" | tr -d '`' | sort -u)
while read -r name; do
	grep -qxF "$name" <<<"$tests" || fail "the test $name is named, and must be there"
done <<<"$named"

[ "$failures" = 0 ]
