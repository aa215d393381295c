#!/usr/bin/env bash
# vm.sh KERNEL PACKAGE... [-- FLAGS]: runs Go tests of these packages in a virtual machine with a kernel of Debian (scripts/vm/kernel.sh
# lists the names). FLAGS are those of a test binary without "test.": -run 'X' -count 3; without any it is -short.
#
#   scripts/vm.sh 6.1 ./ring/uring -- -run TestZeroCopyRefused
#   scripts/vm.sh 6.12-arm64 ./buffers ./ring/...
#
# It needs qemu-system-x86 (or -arm), busybox-static, cpio, kmod, zstd, e2fsprogs, and fetches nothing but packages of Debian. The machine
# ends by itself, at the latest after SOCKETXTREME_VM_LIMIT seconds (default 1200). Exit status: 0 all passed, 1 not so, 3 the kernel cannot be
# fetched.
#   SOCKETXTREME_VM_CACHE    kernels (default ~/.cache/socketxtreme-vm)
#   SOCKETXTREME_VM_RESULTS  a folder that keeps each package's output, the kernel's messages and the console
#   SOCKETXTREME_VM_KVM      0: emulate, even where a machine with KVM boots
#   SOCKETXTREME_VM_JOBS     how many packages run at a time (default 1)
#   SOCKETXTREME_VM_PROGRAMS programs of this machine that the tests find there, for the same architecture: "sockperf"
#   SOCKETXTREME_VM_CABLE    folders of packages: in their tests two virtio-net cards, which a cable joins, take the place of each network's first
#                            veth pair (internal/testnet)
#   SOCKETXTREME_CAPTURES    a folder of captures for the feed handler's tests
#   SOCKETXTREME_VM_CPUS, SOCKETXTREME_VM_MEMORY (MiB), SOCKETXTREME_VM_APPEND (of the kernel's command line), SOCKETXTREME_VM_QEMU (further arguments)
set -euo pipefail
{ # bash reads it to the end before it runs anything: the file may change meanwhile
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
[ $# -ge 2 ] || { sed -n '2,/^set/{/^set/!p}' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
kernel=$1
shift
packages=() flags=()
while [ $# -gt 0 ]; do
	[ "$1" != -- ] || { shift; flags=("$@"); break; }
	packages+=("$1")
	shift
done
[ ${#flags[@]} -gt 0 ] || flags=(-short)
case $kernel in *-arm64) arch=arm64 ;; *) arch=amd64 ;; esac

cache=${SOCKETXTREME_VM_CACHE:-$HOME/.cache/socketxtreme-vm}
limit=${SOCKETXTREME_VM_LIMIT:-1200}
"$here/vm/kernel.sh" "$kernel" "$cache/$kernel"
release=$(cat "$cache/$kernel/release")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the machine boots from: busybox, the modules, init.
root=$work/root
mkdir -p "$root"/{bin,lib/modules,etc}
arch_busybox() { # the emulated machine's, from Debian's package where it is not this machine's
	if [ "$arch" = "$(dpkg --print-architecture)" ]; then
		command -v busybox
	else
		"$here/vm/debian-package.sh" "$arch" busybox-static "$cache/busybox-$arch" && echo "$cache/busybox-$arch/bin/busybox"
	fi
}
cp "$(arch_busybox)" "$root/bin/busybox"
cp "$here/vm/init" "$root/init"
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
mkdir -p "$root/lib/modules/$release/kernel"
(cd "$cache/$kernel/lib/modules/$release" && cp modules.* "$root/lib/modules/$release/" &&
	find kernel -name '*.ko*' | grep -E '/(net|virtio|block|lib|crypto|arch|ext4|jbd2|ptp|pps)/|mbcache' | grep -v wireless |
	cpio -pdm --quiet "$root/lib/modules/$release")
find "$root/lib/modules" -name '*.ko.xz' -exec xz -d {} + # busybox's modprobe takes plain ones
PATH=$PATH:/sbin:/usr/sbin depmod -b "$root" "$release"
printf '%s\n' virtio_pci virtio_blk virtio_net ext4 veth tun sch_netem sch_fq sch_etf sch_tbf sch_ingress cls_bpf 8021q bonding macvlan \
	ipvlan dummy tcp_bbr nf_tables >"$root/modules"
for program in ${SOCKETXTREME_VM_PROGRAMS:-}; do
	path=$(command -v "$program")
	cp "$path" "$root/bin/"
	ldd "$path" | grep -o '/[^ ]*' | xargs -r cp -L --parents -t "$root"
done
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs"

# What it runs: the tests, statically, in a copy of the tree.
disk=$work/disk
mkdir -p "$disk"/{tests,tree,results,bin}
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -z | tar -c --null --ignore-failed-read -T - 2>/dev/null | tar -x -C "$disk/tree"
else # a copy of the tree
	cp -r . "$disk/tree"
fi
mapfile -t packages < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "${packages[@]}")
n=${#packages[@]}
[ "$n" -gt 0 ] || { echo "vm: no tests" >&2; exit 1; }
CGO_ENABLED=0 GOARCH=$arch go test -count=1 -vet=off -exec "$here/vm/collect $disk $PWD" "${packages[@]}" >"$work/built" 2>&1 ||
	{ cat "$work/built" >&2; exit 1; }
sort -o "$disk/list" "$disk/list"
printf '%s\n' "${flags[@]}" | sed 's/^--*\([a-z]\)/-test.\1/' >"$disk/flags"
echo "$limit" >"$disk/limit"
printf '%s\n' ${SOCKETXTREME_VM_CABLE:-} >"$disk/cable"
echo "${SOCKETXTREME_VM_JOBS:-1}" >"$disk/jobs"
cp "$here/vm/run" "$here/vm/one" "$disk/"
CGO_ENABLED=0 GOARCH=$arch go build -o "$disk/bin/" ./scripts/vm/slowness ./examples/feedhandler/mdreplay
[ ! -d "${SOCKETXTREME_CAPTURES:-}" ] || cp -rL "$SOCKETXTREME_CAPTURES" "$disk/captures"
go run ./scripts/vm/slowness processor >"$disk/fast"
truncate -s "$(($(du -sm "$disk" | cut -f1) * 2 + 256))M" "$work/image"
PATH=$PATH:/sbin:/usr/sbin mke2fs -q -t ext4 -O ^has_journal -d "$disk" "$work/image"

# KVM, if a machine with it boots within ten seconds: /dev/kvm may be there and not work.
cpus=${SOCKETXTREME_VM_CPUS:-2}
memory=${SOCKETXTREME_VM_MEMORY:-3072}
if [ "$arch" = arm64 ]; then
	command=(qemu-system-aarch64 -machine virt) console=ttyAMA0 processor=max
else
	command=(qemu-system-x86_64 -machine q35) console=ttyS0 processor=max,-cx16
fi
# Without cx16: QEMU 7.2 leaves wrong flags behind cmpxchg16b, which the allocator of Linux uses, and an interrupt there ends in a double fault.
accelerate=(-accel tcg,thread=multi -cpu "$processor") how="emulated (TCG)"
# An emulated TSC is this machine's, but the kernel does not trust it there and reads a clock on the bus, a hundred times slower; and what keeps
# processors from speculating costs an emulated one much and is of no use. The kernel's check of its timer counts ticks, of which a machine that
# waits for a processor has too few: it would panic.
append="tsc=reliable mitigations=off no_timer_check"
probe_kvm() {
	[ "${SOCKETXTREME_VM_KVM:-1}" != 0 ] && [ -w /dev/kvm ] && [ "$arch" = "$(dpkg --print-architecture)" ] || return 1
	printf '#!/bin/busybox sh\n/bin/busybox mount -t proc proc /proc\n/bin/busybox poweroff -f\n' >"$work/probe-init"
	mkdir -p "$work/probe/bin" "$work/probe/proc"
	cp "$root/bin/busybox" "$work/probe/bin/"
	install -m 755 "$work/probe-init" "$work/probe/init"
	(cd "$work/probe" && find . | cpio -o -H newc --quiet) >"$work/probe.cpio"
	(timeout -k 1 10 "${command[@]}" -accel kvm -cpu host -m 256 -nographic -no-reboot -net none -kernel "$cache/$kernel/vmlinuz" \
		-initrd "$work/probe.cpio" -append "console=$console quiet panic=-1" </dev/null; exit $?) >/dev/null 2>&1
}
if probe_kvm; then
	accelerate=(-accel kvm -cpu host) how="KVM" append=
fi
devices=()
if [ -n "${SOCKETXTREME_VM_CABLE:-}" ]; then
	for n in 1 2; do
		devices+=(-netdev "hubport,id=cable$n,hubid=0" -device "virtio-net-pci,netdev=cable$n,mac=02:00:00:00:00:0$n")
	done
fi
echo "vm: Linux $release, $arch, $how, $cpus processors, $memory MiB; $n packages"

# In the foreground: what ends this script ends the machine.
timeout --foreground -k 5 "$((limit + 60))" "${command[@]}" "${accelerate[@]}" -smp "$cpus" -m "$memory" -nographic -no-reboot -nic none "${devices[@]}" \
	-kernel "$cache/$kernel/vmlinuz" -initrd "$work/initramfs" -append "console=$console quiet panic=-1 $append ${SOCKETXTREME_VM_APPEND:-}" \
	-drive "file=$work/image,format=raw,if=virtio,cache=unsafe" ${SOCKETXTREME_VM_QEMU:-} </dev/null 2>&1 | tee "$work/console" | sed -u 's,\r,,g' |
	grep --line-buffered -o 'vm: .*\|.*Kernel panic.*' || true

mkdir -p "$work/out"
PATH=$PATH:/sbin:/usr/sbin debugfs -R "rdump /results $work/out" "$work/image" >/dev/null 2>&1
failed=0
: >"$work/json"
module=$(go list -m)
while read -r folder name; do
	code=$(cat "$work/out/results/$name.code" 2>/dev/null || echo "none: the machine ended before")
	out=$work/out/results/$name.out
	[ -f "$out" ] && go tool test2json -p "$module/$folder" <"$out" >>"$work/json"
	[ "$code" = 0 ] || { failed=1; echo "vm: $folder: exit status $code"; }
done <"$disk/list"
if [ -n "${SOCKETXTREME_VM_RESULTS:-}" ]; then
	mkdir -p "$SOCKETXTREME_VM_RESULTS"
	cp -r "$work/out/results/." "$work/console" "$work/json" "$disk/list" "$SOCKETXTREME_VM_RESULTS/"
	echo "$release" >"$SOCKETXTREME_VM_RESULTS/release"
fi
go run ./.ci/testlog <"$work/json" || failed=1
[ $failed != 0 ] || echo "vm: all passed on Linux $release"
exit $failed
}
