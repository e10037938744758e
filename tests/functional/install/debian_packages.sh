#!/usr/bin/env bash
# tools/package makes Debian packages in which lintian finds no error, each with what it is named for, and what they install
# works: programs, library, Python package, a whole job.
set -uo pipefail

source=${SUMMAND_SOURCE:?must name the source directory}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

for program in cpack dpkg-deb dpkg-shlibdeps lintian; do
	if ! command -v "$program" >/dev/null; then
		echo "skipped: no $program here"
		exit 77
	fi
done
packages=$scratch/packages
root=$scratch/root
"$source/tools/package" "$packages" >"$scratch/made" || exit 1
version=$(dpkg-deb -f "$packages"/summand_*.deb Version)
for name in summand summand-reduction-server libsummand0 libsummand-dev libnccl-net-summand python3-summand; do
	file=$(echo "$packages/${name}_${version}"_*.deb)
	if [ ! -f "$file" ]; then
		fail "there must be a package $name, got $(ls "$packages")"
		continue
	fi
	dpkg-deb -x "$file" "$root"
	[ -f "$root/usr/share/doc/$name/copyright" ] || fail "$name must have its copyright"
done
[ "$failures" = 0 ] || exit 1
lintian --allow-root --fail-on error "$packages"/*.deb || fail "lintian must find no error"

# depends NAME PATTERN: the package needs what it is linked with.
depends() {
	dpkg-deb -f "$packages/${1}_${version}"_*.deb Depends | grep -qE "$2" || fail "$1 must depend on $2"
}
depends summand 'libsummand0 \(= .*libyaml'
depends summand-reduction-server 'libevent-core.*libssl3'
depends libsummand0 libjansson4
depends python3-summand 'libsummand0.*summand'

# As if they were installed: the loader is told where, as nothing of the root is the system's.
library=$(dirname "$(find "$root/usr/lib" -name libsummand.so.0)")
export PATH=$root/usr/bin:$PATH LD_LIBRARY_PATH=$library SUMMAND_STATE_DIR=$scratch/state
unset SUMMAND_BUILD "${!PYTHON@}"
for program in summand summand-reduction-server; do
	[ "$(command -v "$program")" = "$root/usr/bin/$program" ] || fail "$program must be installed"
	says=$("$program" --version)
	[[ $says == *"$version"* ]] || fail "$program --version must say $version, got $says"
done
cd "$scratch" || exit 1
says=$(summand custom-jobs local-run --job-dir=job "$root/usr/share/summand/jobs/digits.json" 2>&1) ||
	fail "the example must run: $says"
grep -q '"JOB_STATE_SUCCEEDED"' job/state.json || fail "the example must succeed: $says"
says=$(PYTHONPATH=$root/usr/lib/python3/dist-packages SUMMAND_HOME=$root/usr /usr/bin/python3 -c \
	"import summand.places; print(summand.places.program(), summand.places.libraries()[0])" 2>&1)
[ "$says" = "$root/usr/bin/summand $library/libsummand.so.0" ] || fail "the Python package must find both, got $says"
if command -v man >/dev/null; then
	for page in man1/summand.1 man5/summand-job.5 man1/summand-reduction-server.1 man3/libsummand.3; do
		man -l "$root/usr/share/man/$page.gz" >"$scratch/page" 2>&1 || fail "$page must be a manual page: $(cat "$scratch/page")"
	done
fi

[ "$failures" = 0 ]
