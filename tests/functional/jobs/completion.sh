#!/usr/bin/env bash
# Completion: what the program answers from its tables, and that each shell's script makes completions of it. Without
# zsh or fish here, their scripts are only compared with what is printed.
#
# shellcheck disable=SC2034 # COMP_WORDS and COMP_CWORD are read by the script.
set -uo pipefail

build=${SUMMAND_BUILD:?must name the build directory}
source=${SUMMAND_SOURCE:?must name the source directory}
scripts=$source/orchestrator/cli/completion
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PATH=$build/bin:$PATH SUMMAND_STATE_DIR=$scratch/state
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

summand custom-jobs local-run --display-name=first-job --worker-pool-spec=machine-type=a,container-image-uri=b \
	--command=true >/dev/null 2>&1 || fail "a job must run"
id=$(summand custom-jobs list --format='value(name.basename())')
[ -n "$id" ] || fail "the job must be listed"

# A script is what the program prints.
for pair in bash:summand.bash zsh:_summand fish:summand.fish; do
	summand completion "${pair%%:*}" | diff - "$scripts/${pair#*:}" ||
		fail "summand completion ${pair%%:*} must print ${pair#*:}"
done
summand completion tcsh 2>"$scratch/said" && fail "tcsh must be refused"
grep -qx 'summand: completion: must be bash, zsh or fish, got "tcsh"' "$scratch/said" || fail "tcsh: $(cat "$scratch/said")"

# Every verb and every option of every --help is offered: verbs where none is typed, options after their dashes, or, as
# those without effect, when more of them is typed.
for group in $(summand --help | sed -n 's/^  \([a-z-]*-jobs\) .*/\1/p'); do
	offered=$(summand completion words -- $group "" | cut -f1)
	for verb in $(summand $group --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'); do
		grep -qx "$verb" <<<"$offered" || fail "$group: must offer $verb"
		options=$(summand completion words -- $group "$verb" -- | cut -f1)
		for option in $(summand $group "$verb" --help | grep -o '^  --[a-z-]*=*'); do
			grep -qx -- "$option" <<<"$options" ||
				summand completion words -- $group "$verb" "${option%=}" | cut -f1 | grep -qx -- "$option" ||
				fail "$group $verb: must offer $option"
		done
	done
done

# completes EXPECTED WORD...: what bash makes of the words, of which the last is being typed; sorted, in one line.
completes() {
	local expected=$1 got

	shift
	COMP_WORDS=(summand "$@")
	COMP_CWORD=$#
	COMPREPLY=()
	_summand 2>/dev/null
	got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
	[ "${got% }" = "$expected" ] || fail "summand $*: must complete to \"$expected\", got \"${got% }\""
}

# shellcheck source=/dev/null
source "$scripts/summand.bash"
cd "$scratch" || exit 1
mkdir jobs
touch job.yaml
completes "custom-jobs" custom
completes "custom-jobs" ai custom
completes "delete describe" custom-jobs de
completes "describe" help custom-jobs descr
completes "job-flags" help job
completes "bash fish zsh" completion ""
completes "job.yaml jobs" custom-jobs validate job
completes "--restart-backoff= --restart-policy= --restart-scope=" custom-jobs plan job.yaml --restart
completes "on-failure" custom-jobs plan job.yaml --restart-policy = on
completes "exit-code never on-failure" custom-jobs plan job.yaml --restart-policy =
completes "exit-code never on-failure" custom-jobs plan job.yaml --restart-policy ""
completes "job.yaml jobs" custom-jobs plan --config = jo
completes "jobs" custom-jobs local-run job.yaml --job-dir = jo
completes "--dry-run" custom-jobs local-run job.yaml --dry
completes "--no-dry-run" custom-jobs local-run job.yaml --no-dry
completes "" custom-jobs plan --region x y z
completes "--region=" custom-jobs plan --reg
completes "$id" custom-jobs describe ""
completes "$id" custom-jobs wait "${id:0:4}"
completes "first-job" custom-jobs cancel fir
completes "" custom-jobs delete "$id" fir
completes "job.yaml" torch-run job.y
completes "job.yaml" torch-run train.py --config=x job.y
completes "" no-such-group x

# Where there is no store there are no jobs, and no complaint.
SUMMAND_STATE_DIR=$scratch/none completes "" custom-jobs describe ""

if command -v zsh >/dev/null; then
	zsh -n "$scripts/_summand" || fail "_summand must be a script of zsh"
else
	echo "zsh is not here: its script was not read"
fi
if command -v fish >/dev/null; then
	fish --no-execute "$scripts/summand.fish" || fail "summand.fish must be a script of fish"
	got=$(fish -c "source '$scripts/summand.fish'; complete -C 'summand custom-jobs plan --restart-p'" | cut -f1)
	[ "$got" = "--restart-policy=" ] || fail "fish must complete --restart-policy=, got $got"
else
	echo "fish is not here: its script was not read"
fi

[ "$failures" = 0 ]
