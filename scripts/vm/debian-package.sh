#!/usr/bin/env bash
# debian-package.sh ARCH PACKAGE DIR: unpacks a package of Debian bookworm for this architecture into DIR. What is there already stays.
set -euo pipefail
arch=$1 package=$2 dir=$3
[ -d "$dir" ] && exit 0
source "$(dirname "$0")/debian.sh"
debian_lists bookworm "$arch"
(cd "$lists" && apt-get "${apt[@]}" download "$package")
mkdir -p "$(dirname "$dir")"
dpkg-deb -x "$lists/${package}"_*.deb "$lists/unpacked"
mv "$lists/unpacked" "$dir"
