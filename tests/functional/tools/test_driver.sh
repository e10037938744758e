#!/usr/bin/env bash
# tools/test: a tree's tests wait for its build, which is a test; what fails is run again, and named where it passes then;
# a summary of all is the last. Packages, trees and their builds are played by scripts of this test.
set -uo pipefail

source=${SUMMAND_SOURCE:?must name the source directory}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

mkdir "$scratch/tools"
cp "$source/tools/test" "$scratch/tools"
printf '#!/bin/sh\n' >"$scratch/tools/install-packages"
# A tree has three tests, whose program only its build makes: they end as the variables of this test say.
cat >"$scratch/tools/build" <<'SCRIPT'
#!/usr/bin/env bash
folder=$2
case $folder in */asan) tree=address ;; */tsan) tree=thread ;; *) tree=plain ;; esac
mkdir -p "$folder"
if [ "$1" = --only=configure ]; then
	if [ "${unplanned:-}" = "$tree" ]; then
		echo "no plan" >"$folder/configure.log"
		exit 1
	fi
	for name in first second; do
		echo "add_test($tree.$name \"$PWD/$folder/program\" $name)"
		echo "set_tests_properties($tree.$name PROPERTIES FIXTURES_REQUIRED $tree.build SKIP_RETURN_CODE 77 LABELS plain)"
	done >"$folder/CTestTestfile.cmake"
	exit 0
fi
[ "${unbuilt:-}" != "$tree" ] || { echo "$tree does not compile"; exit 1; }
cat >"$folder/program" <<PROGRAM
#!/bin/sh
[ "\$1" = second ] || exit 0
echo x >>"$PWD/$folder/tries"
[ "\$(wc -l <"$PWD/$folder/tries")" -gt ${bad_tries:-0} ] || { echo said by a bad try; exit 1; }
exit ${ends_with:-0}
PROGRAM
chmod +x "$folder/program"
SCRIPT
chmod +x "$scratch/tools"/*

# run CODE ARGUMENT...: from nothing; what was printed is in $got.
run() {
	local code=$1 result

	shift
	rm -rf "$scratch/build"
	got=$("$scratch/tools/test" "$@" 2>&1)
	result=$?
	[ "$result" = "$code" ] || fail "tools/test $* must exit with $code, got $result: $got"
}

# says TEXT / says_not TEXT
says() {
	[[ $got == *"$1"* ]] || fail "must say '$1', got: $got"
}

says_not() {
	[[ $got != *"$1"* ]] || fail "must not say '$1', got: $got"
}

run 0
says "0 tests failed out of 3"
says_not "address.build"
run 0 -R plain.first
says "plain.build ......................   Passed"
says "0 tests failed out of 2"

ends_with=77 run 0
says "plain.second (Skipped)"

bad_tries=1 run 0
says "unsteady: plain.second failed"
bad_tries=2 run 0
says "said by a bad try"
says "run again one at a time:
    plain.second"
says "0 tests failed out of 2"
bad_tries=9 run 1
says_not "unsteady"
says "plain.second (Failed)"

# One build that fails keeps the tests of others from nothing; a tree that cannot be configured has no tests.
if ! [[ $(run 0 --all && echo "$got") == *"does not run here"* ]]; then
	unbuilt=address run 1 --all
	says "address does not compile"
	says "address.build (Failed)"
	says "address.first (Not Run)"
	says "thread.first"
	says_not "thread.first (Not Run)"
	unplanned=address run 1 --all
	says "no plan"
	says "address.build (Failed)"
	says_not "address.first"
	says_not "thread.first (Not Run)"
fi

[ "$failures" = 0 ]
