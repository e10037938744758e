#!/usr/bin/env bash
# The manual pages: they say what the programs' --help says, name every call of the library, and
# are well-formed.
set -uo pipefail

build=${SUMMAND_BUILD:?must name the build directory}
source=${SUMMAND_SOURCE:?must name the source directory}
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# Options with their values as --help lists them: --listen=ADDR:PORT.
# Those of which a group's name says all stand in one line: --region=REGION --project=PROJECT.
options_of_help() {
	"$build/bin/$1" "${@:2}" | awk '/^  --/ { print $1; for (i = 2; i <= NF && $i ~ /^--/ && $2 ~ /^--/; i++) print $i }' | sort
}

# A page's text without its fonts and with plain hyphens.
plain() {
	sed -e 's/\\f[BIRP]//g' -e 's/\\-/-/g' "$1"
}

# The same options as they head the paragraphs of a page, or of its section $2.
options_of_page() {
	plain "$1" | awk -v section="${2:-}" '
		/^\.S[HS]/ { inside = section == "" || $0 == ".SS " section || $0 == ".SH " section }
		inside && /^--/' | sort
}

# same WHAT HELP PAGE
same() {
	diff <(echo "$2") <(echo "$3") || fail "$1: --help (<) and the page (>) must agree"
}

page=$source/reduction_server/summand-reduction-server.1
same summand-reduction-server "$(options_of_help summand-reduction-server --help)" "$(options_of_page "$page")"
page=$source/worker/perf/summand-perf.1
for command in allreduce kernels; do
	same "summand-perf $command" "$(options_of_help summand-perf $command --help)" "$(options_of_page "$page" $command)"
done
page=$source/worker/nccl_perf/summand-nccl-perf.1
if [ -x "$build/bin/summand-nccl-perf" ]; then # built where there is NCCL
	same summand-nccl-perf "$(options_of_help summand-nccl-perf --help)" "$(options_of_page "$page")"
fi
page=$source/worker/agent/summand-agent.1
same summand-agent "$(options_of_help summand-agent --help)" "$(options_of_page "$page")"
page=$source/worker/mpi/summand-mpi.1
same summand-mpi "$(options_of_help summand-mpi --help)" "$(options_of_page "$page")"

page=$source/orchestrator/cli/summand.1
same "summand torch-run" "$(options_of_help summand torch-run --help | grep -vx -- --help)" \
	"$(options_of_page "$page" TORCH-RUN)"
for verb in serve env-gcloud; do
	same "summand $verb" "$(options_of_help summand "$verb" --help | grep -vx -- --help)" "$(options_of_page "$page" "${verb^^}")"
done
same "summand help job-flags" "$(options_of_help summand help job-flags)" "$(options_of_page "$page" "JOB FLAGS")"

# verbs_of WORD...: the verbs that their --help lists.
verbs_of() {
	"$build/bin/summand" "$@" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p'
}

# summand has a section per command; --help is told of once.
commands=$(for group in $(verbs_of); do
	[[ $group =~ ^(completion|env-gcloud|help|serve|torch-run)$ ]] || verbs_of "$group" | sed "s/^/$group /"
done)
same "the commands of summand" "$commands" "$(plain "$page" | sed -n 's/^\.SS //p')"
while read -r group command; do
	same "summand $group $command" "$(options_of_help summand "$group" "$command" --help | grep -vx -- --help)" \
		"$(options_of_page "$page" "$group $command")"
done <<<"$commands"
plain "$page" | grep -x -- --help >/dev/null || fail "summand.1 must tell of --help"

# No page of help is wider than a terminal.
while read -r line; do
	read -ra words <<<"$line"
	wide=$("$build/bin/${words[0]}" "${words[@]:1}" | awk 'length > 80')
	[ -z "$wide" ] || fail "$line: must have lines of at most 80 characters, got: $wide"
done < <(echo "summand --help
summand custom-jobs --help
summand torch-run --help
summand serve --help
summand env-gcloud --help
summand completion --help
summand help job-flags
summand-perf --help
summand-perf allreduce --help
summand-perf kernels --help
summand-agent --help
summand-mpi --help
summand-digits --help
summand-reduction-server --help" && sed 's/.*/summand & --help/' <<<"$commands")

# libsummand.3 has a synopsis and a paragraph for each call of the header.
page=$source/worker/libsummand/libsummand.3
calls=$(sed -e '/^\/\*/d' -e '/^ \*/d' "$source/worker/summand.h" | grep -o '\bsmd_[a-z_]*(' | sort -u)
for part in SYNOPSIS DESCRIPTION; do
	said=$(awk -v part="$part" '/^\.SH/ { inside = $2 == part } inside' "$page" |
		grep -o '\bsmd_[a-z_]*(' | sort -u)
	same "libsummand.3, $part" "$calls" "$said"
done

if command -v groff >/dev/null; then
	while read -r page; do
		warnings=$(groff -man -Tutf8 -z -ww "$page" 2>&1)
		[ -z "$warnings" ] || fail "$warnings"
	done < <(find "$source/orchestrator" "$source/reduction_server" "$source/worker" -name '*.[1-8]')
else
	echo "groff is not here: whether the pages are well-formed was not seen"
fi

[ "$failures" = 0 ]
