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
options_of_help() {
	"$build/bin/$1" "${@:2}" --help | sed -nE 's/^  (--[^ ]*)( .*)?$/\1/p' | sort
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
same summand-reduction-server "$(options_of_help summand-reduction-server)" "$(options_of_page "$page")"
page=$source/worker/perf/summand-perf.1
for command in allreduce kernels; do
	same "summand-perf $command" "$(options_of_help summand-perf $command)" "$(options_of_page "$page" $command)"
done
page=$source/worker/nccl_perf/summand-nccl-perf.1
if [ -x "$build/bin/summand-nccl-perf" ]; then # built where there is NCCL
	same summand-nccl-perf "$(options_of_help summand-nccl-perf)" "$(options_of_page "$page")"
fi
page=$source/worker/agent/summand-agent.1
same summand-agent "$(options_of_help summand-agent)" "$(options_of_page "$page")"

page=$source/orchestrator/cli/summand.1
same "summand torch-run" "$(options_of_help summand torch-run | grep -vx -- --help)" \
	"$(options_of_page "$page" TORCH-RUN)"

# summand has a section per command; --help and the flags of jobs, which all that take a job have, are told
# once.
page=$source/orchestrator/cli/summand.1
groups=$("$build/bin/summand" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
commands=$(for group in $groups; do
	"$build/bin/summand" "$group" --help | sed -n "/^Commands:/,/^\$/s/^  \([a-z-]*\) .*/$group \1/p"
done)
same "the commands of summand" "$commands" "$(plain "$page" | sed -n 's/^\.SS //p')"
while read -r group command; do
	options=$(options_of_help summand "$group" "$command" | grep -vx -- --help)
	own=$(options_of_page "$page" "$group $command")
	if grep -q -- --worker-pool-spec <<<"$options"; then
		own=$(sort <(echo "$own") <(options_of_page "$page" "JOB FLAGS") | sed '/^$/d')
	fi
	same "summand $group $command" "$options" "$own"
done <<<"$commands"
plain "$page" | grep -x -- --help >/dev/null || fail "summand.1 must tell of --help"

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
