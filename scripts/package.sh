#!/usr/bin/env bash
# package.sh [ARCH…]: builds for each architecture (default: amd64, arm64 and ppc64le) in
# bin/packages a .deb, an .rpm and a .tar.gz, an SPDX document of what the program
# contains, and container images of scheduler and agent daemon for docker load. NVML is loaded through cgo,
# so each architecture needs a C compiler; scripts/package-tools.sh cross installs
# Debian's. All programs are looked for before the first build. The same commit and
# compilers give the same bytes.
# PACKAGE_COMPRESSION=zstd is for tests: xz takes 13 s of processor time for each
# package, and gzip at its default level 2 s more than at the lowest one.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${PACKAGE_OUT:-bin/packages}
gzip_level=6
[ "${PACKAGE_COMPRESSION:-xz}" = xz ] || gzip_level=1
described=${VERSION:-$(git describe --tags --always --dirty)}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export TZ=UTC LC_ALL=C

# v1.2.0-3-gabc is 1.2.0+3.gabc; a commit before any tag sorts before all tags.
version() {
	case $described in
	v[0-9]*) described=${described#v} && echo "${described/-/+}" | tr - . ;;
	[0-9]*.*) echo "$described" | tr - . ;;
	*) echo "0.0.0~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).${described//-/.}" ;;
	esac
}

# compiler prints the C compiler for an architecture: this machine's own, or
# Debian's cross compiler.
compiler() {
	[ "$1" != "$(go env GOHOSTARCH)" ] || { go env CC && return; }
	case $1 in
	amd64) echo x86_64-linux-gnu-gcc ;;
	arm64) echo aarch64-linux-gnu-gcc ;;
	ppc64le) echo powerpc64le-linux-gnu-gcc ;;
	*) echo "package: no compiler is known for $1: use amd64, arm64 or ppc64le" >&2 && return 1 ;;
	esac
}

# require fails if programs that the packages need are missing: it names all of them,
# and what installs them.
require() { # ARCH…
	local arch cc program missing=() advice=()
	for arch in "$@"; do
		cc=$(compiler "$arch")
		command -v "${cc%% *}" >/dev/null && continue
		missing+=("$cc for $arch")
		if [ "$arch" = "$(go env GOHOSTARCH)" ]; then
			advice+=("install a C compiler for this machine")
		else
			advice+=("run scripts/package-tools.sh cross on Debian, or make package ARCH=$(go env GOHOSTARCH) for this machine only")
		fi
	done
	for program in make dpkg-deb gzip tar sha256sum; do
		command -v "$program" >/dev/null || { missing+=("$program") && advice+=("install $program"); }
	done
	((${#missing[@]} == 0)) || {
		echo "package: missing: $(printf '%s; ' "${missing[@]}")nothing was built. To build: $(printf '%s\n' "${advice[@]}" | sort -u | paste -sd';' | sed 's/;/; /g')" >&2
		return 1
	}
}

build() { # ARCH FILE
	GOARCH=$1 GOOS=linux CGO_ENABLED=1 CC=$(compiler "$1") go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X main.version=$described" -o "$2" ./cmd/mesos-gpu
}

# limiter builds the library that limits containers to their shares of a GPU.
limiter() { # ARCH DIR
	make --no-print-directory -s -C isolator/limiter limiter CC="$(compiler "$1")" OUT="$2"
}

# check_release fails for a release, the version of a tag, that CHANGELOG.md does not
# describe.
check_release() {
	local release=${described#v}
	[[ $described =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ ]] || return 0
	grep -q "^## $release - [0-9-]*$" CHANGELOG.md || {
		echo "package: CHANGELOG.md has no section \"## $release - DATE\": rename Unreleased, or set VERSION for a build that is no release" >&2
		return 1
	}
}

# modules lists the modules of the program, with their folders.
modules() {
	go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/mesos-gpu | sort -u
}

# libraries prints the folders with an architecture's C library.
libraries() {
	case $1-$(go env GOHOSTARCH) in
	amd64-amd64) echo /lib/x86_64-linux-gnu:/lib64:/usr/lib64 ;;
	arm64-arm64) echo /lib/aarch64-linux-gnu:/lib:/lib64 ;;
	ppc64le-ppc64le) echo /lib/powerpc64le-linux-gnu:/lib64 ;;
	amd64-*) echo /usr/x86_64-linux-gnu/lib ;;
	arm64-*) echo /usr/aarch64-linux-gnu/lib ;;
	ppc64le-*) echo /usr/powerpc64le-linux-gnu/lib ;;
	esac
}

# image builds the container image of a daemon.
image() { # DAEMON ARCH NAME
	"$work/image" -daemon "$1" -program "$PACKAGE_ROOT/mesos-gpu" -arch "$2" -version "${PACKAGE_VERSION//[~+]/-}" -date "$SOURCE_DATE_EPOCH" -libraries "$(libraries "$2")" \
		-file "usr/lib/mesos-gpu/libmesosgpu.so=$PACKAGE_ROOT/libmesosgpu.so" -file etc/ssl/certs/ca-certificates.crt=/etc/ssl/certs/ca-certificates.crt \
		-file usr/share/doc/mesos-gpu/copyright=LICENSE -file "usr/share/doc/mesos-gpu/third-party-licences.gz=$work/shared/third-party-licences.gz" \
		-file usr/share/doc/libc6/copyright=/usr/share/doc/libc6/copyright \
		"$out/mesos-gpu-$1-$3.image.tar"
}

# licences prints the licences of the binary's modules. It fails if one has
# none.
licences() {
	modules |
		while read -r module version dir; do
			found=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'unlicense*' \) | sort)
			[ -n "$found" ] || { echo "package: $module $version has no licence file in $dir" >&2 && exit 1; }
			echo "==== $module $version"
			xargs -d '\n' cat <<<"$found"
			echo
		done
}

# shared creates the files that all architectures share, with a binary that runs
# here.
shared() { # DIR BINARY
	"$2" man "$1/man"
	gzip -9n "$1"/man/*
	mkdir "$1/completions"
	for shell in bash zsh fish; do "$2" completion $shell >"$1/completions/mesos-gpu.$shell"; done
	licences >"$1/third-party-licences"
	gzip -9n "$1/third-party-licences"
	mkdir "$1/doc"
	git ls-files -z docs examples README.md CHANGELOG.md | xargs -0 cp --parents -t "$1/doc"
	chmod -R u=rwX,go=rX "$1/doc"
}

# tarball contains the files of the .deb below one folder, without scripts.
tarball() { # DEB NAME
	local root
	root=$(mktemp -d -p "$work")
	mkdir "$root/$2"
	dpkg-deb -x "$1" "$root/$2"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$root" -c "$2" | gzip -n "-$gzip_level" >"$out/$2.tar.gz"
}

# nfpm reports errors on stdout, too.
nfpm() {
	go tool -modfile=deploy/package/nfpm/go.mod nfpm "$@" >"$work/nfpm" || { cat "$work/nfpm" >&2 && return 1; }
}

(($#)) || set -- amd64 arm64 ppc64le
require "$@"
[ "${PACKAGE_CHECK_RELEASE:-1}" = 0 ] || check_release
PACKAGE_VERSION=$(version)
export PACKAGE_VERSION
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/shared"
out=$(cd "$out" && pwd)
echo "package: the binary for this machine, manual pages and licences"
build "$(go env GOHOSTARCH)" "$work/here"
shared "$work/shared" "$work/here"
go build -o "$work/image" ./deploy/package/image
go -C deploy/package/sbom build -o "$work/sbom" .
sed "s/compression: xz/compression: ${PACKAGE_COMPRESSION:-xz}/" deploy/package/nfpm.yaml >"$work/nfpm.yaml"
for arch in "$@"; do
	echo "package: $arch"
	export PACKAGE_ARCH=$arch PACKAGE_ROOT=$work/$arch PACKAGE_SHARED=$work/shared
	mkdir "$PACKAGE_ROOT"
	if [ "$arch" = "$(go env GOHOSTARCH)" ]; then
		cp "$work/here" "$PACKAGE_ROOT/mesos-gpu"
	else
		build "$arch" "$PACKAGE_ROOT/mesos-gpu"
	fi
	limiter "$arch" "$PACKAGE_ROOT"
	name=mesos-gpu-$PACKAGE_VERSION-$arch
	nfpm package -f "$work/nfpm.yaml" -p deb -t "$out/$name.deb"
	nfpm package -f "$work/nfpm.yaml" -p rpm -t "$out/$name.rpm"
	tarball "$out/$name.deb" "$name"
	modules | "$work/sbom" -program "$PACKAGE_ROOT/mesos-gpu" -version "$PACKAGE_VERSION" -date "$SOURCE_DATE_EPOCH" >"$out/$name.spdx.json"
	image scheduler "$arch" "$PACKAGE_VERSION-$arch"
	image agent "$arch" "$PACKAGE_VERSION-$arch"
done
(cd "$out" && sha256sum mesos-gpu-*"$PACKAGE_VERSION"-* >SHA256SUMS)
ls -l "$out"
