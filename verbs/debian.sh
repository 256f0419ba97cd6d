#!/bin/sh
# debian.sh [FOLDER]: makes a Debian package of the command iwarp and the two libraries, in FOLDER or here.
# Needs what build.sh needs, and dpkg-deb.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=$(cd "${1:-.}" && pwd)
version=0.0~git$(git -C "$here" log -1 --format=%cd --date=format:%Y%m%d%H%M 2> /dev/null || echo 0)
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
mkdir -p "$root/usr/bin" "$root/DEBIAN"
"$here/build.sh" "$root/usr/lib/iwarp-verbs"
(cd "$here/.." && CGO_ENABLED=0 go build -trimpath -o "$root/usr/bin/iwarp" ./cmd/iwarp)
cat > "$root/DEBIAN/control" << C
Package: iwarp-verbs
Version: $version
Architecture: $arch
Maintainer: go-iwarp <iwarp@example.org>
Depends: libc6, ibverbs-providers, libibverbs1, librdmacm1
Section: net
Priority: optional
Description: RDMA programs on iWARP in user space
 Runs programs of libibverbs and librdmacm without an RDMA device and
 without a kernel module: iwarp verbs -- PROGRAM.
C
dpkg-deb --root-owner-group --build "$root" "$to/iwarp-verbs_${version}_$arch.deb"
