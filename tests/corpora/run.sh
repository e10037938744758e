#!/usr/bin/env bash
# Runs `summand custom-jobs` on every spec of the corpora and compares what it says byte by byte.
#
#   run.sh            compare; exit 1 when anything differs
#   run.sh --update   write the expected texts anew; look at the diff before you commit it
#
# invalid/SPEC has SPEC.error: all that `validate` says, with exit code 2.
# unrunnable/SPEC has SPEC.error: what `local-run` says of a valid spec, with exit code 2.
# kinds says which file stands for which kind of spec.
# flags/NAME.words is a command line, a word in each line; NAME.said is all that it says, and its exit
# code.
# valid/SPEC has SPEC.validate, SPEC.plan, SPEC.plan.json, SPEC.env.json (all
# replicas) and SPEC.env.sh (the chief's).

here=$(cd "$(dirname "$0")" && pwd)
summand="${SUMMAND_BUILD:?must name the build directory}/bin/summand"
update=no
sanitized=no # it sees what validate and plan do with every spec in fuzz.spec, which is one process
[ -z "${SUMMAND_SANITIZE:-}" ] || sanitized=yes
[ "${1:-}" = --update ] && update=yes
got=$(mktemp)
trap 'rm -f "$got"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# expect_same FILE WHAT: what was got is FILE's content.
expect_same() {
	if [ "$update" = yes ]; then
		cp "$got" "$1"
	elif ! diff -u "$1" "$got"; then
		fail "$2: must say what $1 says"
	fi
}

# expect FILE EXIT_CODE COMMAND...: what the command prints is FILE's content. Of `validate` and
# `local-run` that is both streams; of the others, whose warnings are the same, standard output.
expect() {
	file=$1
	code=$2
	shift 2
	if [ "$1" = validate ] || [ "$1" = local-run ]; then
		"$summand" custom-jobs "$@" >"$got" 2>&1
	else
		"$summand" custom-jobs "$@" >"$got" 2>/dev/null
	fi
	result=$?
	[ "$result" = "$code" ] || fail "$*: must exit with $code, got $result"
	expect_same "$file" "$*"
}

cd "$here/invalid" || exit 1
for spec in *.json *.yaml; do
	[ "$sanitized" = yes ] || expect "$spec.error" 2 validate "$spec"
done

cd "$here/unrunnable" || exit 1
for spec in *.json *.yaml; do
	expect "$spec.error" 2 local-run "$spec"
done

cd "$here/flags" || exit 1
for words in *.words; do
	mapfile -t line <"$words"
	"$summand" custom-jobs "${line[@]}" >"$got" 2>&1
	echo "exit $?" >>"$got"
	expect_same "${words%.words}.said" "$words"
done

cd "$here/valid" || exit 1
for spec in *.yaml *.json; do
	case $spec in
	*.plan.json | *.env.json) continue ;;
	esac
	if [ "$sanitized" = no ]; then
		expect "$spec.validate" 0 validate "$spec"
		expect "$spec.plan" 0 plan "$spec"
		expect "$spec.plan.json" 0 plan "$spec" --format=json
	fi
	expect "$spec.env.json" 0 env "$spec" --format=json
	expect "$spec.env.sh" 0 env "$spec" --replica=workerpool0-0
done

kinds=0
while IFS=$'\t' read -r kind file; do
	case $kind in '#'*) continue ;; esac
	kinds=$((kinds + 1))
	[ -f "$here/$file" ] || fail "kinds: $kind: must have a file, and $file is none"
done <"$here/kinds"
[ "$kinds" -ge 28 ] || fail "kinds: must have at least 28, got $kinds"

[ "$failures" = 0 ]
