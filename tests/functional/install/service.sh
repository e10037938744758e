#!/usr/bin/env bash
# The unit for systemd: well-formed, starts the program that is installed with it, and is exposed no more than its
# page says.
set -uo pipefail

build=${SUMMAND_BUILD:?must name the build directory}
source=${SUMMAND_SOURCE:?must name the source directory}
page=$source/specs/guide/reduction-server.md
name=summand-reduction-server.service
root=$(mktemp -d)
failures=0
trap 'rm -rf "$root"' EXIT

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

if ! command -v systemd-analyze >/dev/null; then
	echo "skipped: no systemd-analyze to judge the unit with"
	exit 77
fi
program=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$build/lib/$name")
installed=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")/bin/summand-reduction-server
[ "$program" = "$installed" ] || fail "the unit must start $installed, got $program"

# From the build tree, as nothing may be installed.
sed "s|^ExecStart=[^ ]*|ExecStart=$build/bin/summand-reduction-server|" "$build/lib/$name" >"$root/$name"
says=$(systemd-analyze verify --man=no "$root/$name" 2>&1) || fail "the unit must be well-formed: $says"
[[ $says != *"$name"* ]] || fail "the unit must be understood as a whole: $says"

most=$(sed -n 's/.*exposure level of \([0-9]*\)\.\([0-9]\).*/\1\2/p' "$page")
[ -n "$most" ] || fail "$page must tell the unit's exposure level"
says=$(systemd-analyze security --offline=true --no-pager --threshold="$most" "$root/$name" 2>&1)
case $?:$says in
0:*) ;;
*"nrecognized option"*) echo "how exposed the unit is was not seen: this systemd judges no file" ;;
*) fail "the exposure level must be at most $most tenths: $(tail -n 1 <<<"$says")" ;;
esac

# As its first lines tell to change it.
changes=$(sed -n 's/^#   \(LoadCredential=\|Environment=\)/\1/p' "$build/lib/$name")
[ "$(wc -l <<<"$changes")" = 2 ] || fail "the unit must tell how to give it a token, got: $changes"
mkdir "$root/changed"
awk -v changes="$changes" '{ print } $0 == "[Service]" { print changes }' "$root/$name" >"$root/changed/$name"
says=$(systemd-analyze verify --man=no "$root/changed/$name" 2>&1) || fail "with a token it must be well-formed: $says"
[[ $says != *"$name"* ]] || fail "with a token it must be understood as a whole: $says"

options=$(sed -n 's/^Environment=OPTIONS=//p' "$build/lib/$name")
read -ra words <<<"$options"
"$build/bin/summand-reduction-server" "${words[@]}" --version >"$root/version" || fail "the options must be the program's: $options"
options=$(sed -n 's/^Environment="OPTIONS=\(.*\)"$/\1/p' <<<"$changes")
read -ra words <<<"$options"
"$build/bin/summand-reduction-server" "${words[@]}" --version >"$root/version" || fail "the options must be the program's: $options"

[ "$failures" = 0 ]
