#!/usr/bin/env bash
# kernel.sh NAME DIR: puts the Debian kernel of this name into DIR: vmlinuz, lib/modules/, release. What is there already stays. Exit status 3:
# Debian's mirror does not have it, or is not reached.
#
#   6.1  6.12                the cloud kernels of bookworm and trixie, amd64
#   6.1-full  6.12-full      with all drivers
#   6.12-rt                  PREEMPT_RT
#   6.1-arm64  6.12-arm64    the cloud kernels, arm64
set -euo pipefail
name=$1 dir=$2
[ -f "$dir/release" ] && exit 0

version=${name%%-*} flavour=${name#"$version"}
case $version in
6.1) suite=bookworm ;;
6.12) suite=trixie ;;
*) echo "kernel $name: no Debian release with Linux $version is known (6.1, 6.12)" >&2; exit 2 ;;
esac
arch=amd64
case $flavour in
'') package=linux-image-cloud-amd64 ;;
-full) package=linux-image-amd64 ;;
-rt) package=linux-image-rt-amd64 ;;
-arm64) package=linux-image-cloud-arm64 arch=arm64 ;;
*) echo "kernel $name: ${flavour#-} is none of full, rt, arm64" >&2; exit 2 ;;
esac

mkdir -p "$dir"
source "$(dirname "$0")/debian.sh"
unavailable() { echo "kernel $name: $1 of Debian $suite cannot be fetched" >&2; exit 3; }
debian_lists "$suite" "$arch" || unavailable "the package list"
shown=$(apt-cache "${apt[@]}" show --no-all-versions "$package") || unavailable "$package"
image=$(sed -n 's/^Depends: *\(linux-image-[^ ,]*\).*/\1/p' <<<"$shown" | head -1)
[ -n "$image" ] || { echo "kernel $name: $package of Debian $suite depends on no kernel image" >&2; exit 1; }
(cd "$lists" && apt-get "${apt[@]}" download "$image") || unavailable "$image"
dpkg-deb -x "$lists/$image"_*.deb "$lists/image"
release=${image#linux-image-}
cp "$lists/image/boot/vmlinuz-$release" "$dir/vmlinuz"
rm -rf "$dir/lib"
mkdir -p "$dir/lib"
modules="$lists/image/lib/modules"
[ -d "$modules" ] || modules="$lists/image/usr/lib/modules"
mv "$modules" "$dir/lib/modules"
PATH=$PATH:/sbin:/usr/sbin depmod -b "$dir" "$release"
echo "$release" >"$dir/release"
