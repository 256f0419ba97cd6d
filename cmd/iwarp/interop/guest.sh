#!/bin/bash
# guest.sh: a small Linux guest in QEMU whose kernel speaks iWARP (the siw driver).
# The interop tests use it as the other end. See README.md beside this file.
#
#   guest.sh build                    make the guest's image, once; later calls return at once
#   guest.sh up [OPTION]...           boot a guest; returns when it takes commands
#       --variant NAME                default, crc, p2p or rev1 (see README.md)
#       --shell PORT                  port of 127.0.0.1 for commands (18022)
#       --forward PORT:GUESTPORT      127.0.0.1:PORT reaches the guest's port; may be repeated
#       --run DIR                     the guest's own directory ($IWARP_GUEST_DIR/run);
#                                     give each of several guests its own
#       --timeout SECONDS             how long booting may take (180)
#       --life SECONDS                the guest ends by itself after so long (3600)
#   guest.sh exec [--run DIR] COMMAND run a shell command in the guest: its output, its exit status
#   guest.sh down [--run DIR]         end the guest; no error if there is none
#   guest.sh check                    say whether this machine can run a guest, and why not
#
# Environment: IWARP_GUEST_DIR    the cache (${XDG_CACHE_HOME:-$HOME/.cache}/iwarp-guest)
#              IWARP_GUEST_ACCEL  kvm or tcg (default: kvm where it works, else tcg)
#              IWARP_GUEST_MEM    the guest's memory in MiB (768)
# Exit status: exec: the command's own. All else: 0, 1 failed, 2 usage,
#              3 cannot run here, 4 no image: build first.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # depmod and ldconfig need no root

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
self=$here/${BASH_SOURCE[0]##*/}
cache=${IWARP_GUEST_DIR:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/iwarp-guest}
run=$cache/run

# What the guest needs: rdma_cm's own programs, the verbs, tools to look and to arrange.
guest_packages=(rdmacm-utils ibverbs-providers ibverbs-utils perftest rdma-core iproute2
	kmod mount util-linux procps ethtool tcpdump socat bash coreutils sed grep)
# What those depend on by name only, and would make the image large.
unneeded='^(perl|lib.*perl|usrmerge|udev|adduser|passwd|debconf|dpkg|tar|pci\.ids)'
# What building needs on this machine.
build_packages=(qemu-system-x86 build-essential cpio kmod xz-utils)

fail() { echo "guest.sh: $*" >&2; exit 1; }
cannot() { echo "guest.sh: cannot run here: $*" >&2; exit 3; }
no_image() { echo "guest.sh: no image for this guest.sh in $cache: run '$0 build'" >&2; exit 4; }
usage() { echo "guest.sh: $*" >&2; sed -n '2,/^set /s/^# \{0,1\}//p' "$self" >&2; exit 2; }

# ---------------------------------------------------------------- build

# The image is made again when anything that decides what is in it changes.
recipe() { cat "$here"/guest/* <(sed -n '/^guest_packages=/,/^build_packages=/p; /^# -* build$/,/^# -* run$/p' "$self") | sha256sum | cut -c1-16; }
built() { [[ -f $cache/image.cpio && -f $cache/vmlinuz && $(cat "$cache/recipe" 2>/dev/null) == "$(recipe)" ]]; }

check() {
	[[ $(uname -s) == Linux && $(uname -m) == x86_64 ]] || cannot "the guest is made for Linux on x86_64, this is $(uname -s) on $(uname -m)"
	if ! built; then
		if ! { command -v apt-get && command -v dpkg-deb; } >/dev/null; then cannot "the guest is made of Debian packages and there is no apt here"; fi
		grep -qs '^ID=debian' /etc/os-release || cannot "apt is here, but its packages are not Debian's"
		[[ ${HOME:-}${IWARP_GUEST_DIR:-}${XDG_CACHE_HOME:-} ]] || cannot "no place for the image: set IWARP_GUEST_DIR"
	elif ! command -v qemu-system-x86_64 >/dev/null; then
		cannot "qemu-system-x86_64 is missing (package qemu-system-x86)"
	fi
}

is_root() { [[ $(id -u) == 0 ]] || sudo -n true 2>/dev/null; }
as_root() { # COMMAND...
	if [[ $(id -u) == 0 ]]; then "$@"
	elif is_root; then sudo "$@"
	else cannot "installing packages needs root; ask an administrator to run: $*"; fi
}

install_tools() { # PACKAGE...: installs those that are missing
	local package missing=()
	for package; do
		[[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
	done
	((${#missing[@]})) || return 0
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >apt.log 2>&1 ||
		fail "apt-get install ${missing[*]} failed: $(tail -3 apt.log)"
}

fetch_guest_packages() { # into debs/: the packages and all they depend on, as if nothing were installed
	mkdir -p debs/partial; : >nothing-installed
	apt-get -o Dir::State::status="$PWD/nothing-installed" -o Dir::Cache::archives="$PWD/debs" -o Debug::NoLocking=1 \
		-o APT::Sandbox::User= --no-install-recommends --download-only -y -qq install "${guest_packages[@]}" >apt.log 2>&1 ||
		fail "cannot fetch the guest's packages: $(tail -3 apt.log)"
}

unpack_root() { # the guest's root from debs/, without documentation
	local deb skip=(--exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale'
		--exclude='./usr/share/perl*' --exclude='./usr/lib/*/gconv' --exclude='./usr/share/info')
	mkdir -p root/{dev,proc,sys,tmp,run,root,etc,usr/{bin,sbin,lib,lib64}}
	ln -s usr/bin usr/sbin usr/lib usr/lib64 root/
	for deb in debs/*.deb; do
		[[ ${deb##*/} =~ $unneeded ]] && continue
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C root --keep-directory-symlink --no-same-owner "${skip[@]}"
	done
	ln -s bash root/usr/bin/sh
	printf 'root:x:0:0:root:/root:/bin/bash\ntcpdump:x:0:0::/:/bin/bash\n' >root/etc/passwd # no packet's own scripts have run
	echo root:x:0: >root/etc/group
	ldconfig -r root 2>/dev/null || true # only makes programs start faster
	install -m 755 "$here/guest/init" root/init
	install -m 755 "$here/guest/agent" root/agent
}

# Compiled with the headers and against the libraries that the guest's own
# packages came with: nothing need be installed here, and the versions agree.
build_peer() { # from libibverbs-dev and librdmacm-dev beside debs/
	local deb lib=root/usr/lib/x86_64-linux-gnu
	for deb in lib{ibverbs,rdmacm}-dev_*.deb; do dpkg-deb -x "$deb" dev; done
	gcc -std=gnu11 -O1 -Wall -Wextra -Idev/usr/include -o root/usr/bin/verbs-peer "$here/guest/verbs-peer.c" \
		"$lib/libibverbs.so.1" "$lib/librdmacm.so.1" "-Wl,-rpath-link,$lib" >peer.log 2>&1 || fail "verbs-peer does not compile: $(tail -5 peer.log)"
}

# siw has its settings as constants. One module with them as parameters serves
# every variant, and the driver's code stays as it is otherwise.
open_parameter() { # DIRECTORY NAME TYPE VARIABLE
	grep -qE "^(const )?[a-z_]+ $4\b" "$1/siw_main.c" || fail "this kernel's siw has no $4: guest.sh does not know it yet"
	sed -Ei "s/^const ([a-z_]+ $4\b)/\1/; s/^((const )?[a-z_]+ $4\b.*;.*)/\1\nmodule_param_named($2, $4, $3, 0444);/" "$1/siw_main.c"
	sed -Ei "s/^extern const ([a-z_]+ $4;)/extern \1/" "$1/siw.h"
}

build_siw() { # KERNEL SOURCE_DEB: makes siw.ko
	mkdir -p siw
	dpkg-deb --fsys-tarfile "$2" | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
		tar -xJ -C siw --strip-components=5 --wildcards '*/drivers/infiniband/sw/siw/*'
	open_parameter siw crc bool mpa_crc_required
	open_parameter siw p2p bool peer_to_peer
	open_parameter siw rev byte mpa_version
	{
		echo "obj-m := siw.o"
		echo "siw-y := $(cd siw && printf '%s ' siw_*.c | sed 's/\.c/.o/g')"
	} >siw/Makefile
	make -s -j"$(nproc)" -C "/usr/src/linux-headers-$1" M="$PWD/siw" modules >siw.log 2>&1 || fail "siw does not compile: $(tail -5 siw.log)"
	strip -g siw/siw.ko
}

unpack_kernel() { # KERNEL IMAGE_DEB: vmlinuz, and the modules that the guest needs
	local modules=root/usr/lib/modules
	mkdir -p "$modules"
	dpkg-deb --fsys-tarfile "$2" | tar -x --strip-components=2 -C . --wildcards './boot/vmlinuz-*'
	mv "vmlinuz-$1" vmlinuz
	# Beside what siw needs: loss and delay (sched), IPsec, sctp, and the RDMA storage drivers.
	dpkg-deb --fsys-tarfile "$2" | tar -x --strip-components=3 -C "$modules" --wildcards \
		"./lib/modules/$1/modules.*" \
		"./lib/modules/$1/kernel/"{drivers/{infiniband,virtio,nvme,target,scsi/'scsi_*',block,net/'virtio_net*',net/'net_failover*'},lib,crypto,arch/x86/crypto,block,fs/{configfs,nfs,nfsd,lockd,nfs_common},net/{core,sched,sunrpc,sctp,ipv4,ipv6,xfrm,key}}
	rm -rf "$modules/$1/kernel/drivers/infiniband/hw"
	cp siw/siw.ko "$modules/"
	depmod -b root "$1"
}

newest() { # PACKAGE: its version in apt
	apt-cache policy "$1" | sed -n 's/^ *Candidate: //p'
}

build() {
	check
	mkdir -p "$cache"
	exec 9>"$cache/lock"
	flock 9
	built && { echo "guest.sh: the image in $cache is up to date"; return; }
	local begin=$SECONDS work=$cache/work kernel series version
	rm -rf "$work"; mkdir -p "$work"; cd "$work"
	if ! is_root || ! as_root apt-get update -qq >apt.log 2>&1; then
		echo "guest.sh: going on with apt's lists as they are" >&2
	fi
	kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-\([0-9].*\)/\1/p' | head -n 1)
	[[ $kernel ]] || cannot "apt knows no linux-image-amd64"
	series=$(grep -o '^[0-9]*\.[0-9]*' <<<"$kernel")
	version=$(newest "linux-image-$kernel")
	install_tools "${build_packages[@]}" "linux-headers-$kernel"
	fetch_guest_packages
	apt-get download -qq -o APT::Sandbox::User= "linux-image-$kernel" "linux-source-$series=$version" libibverbs-dev librdmacm-dev >apt.log 2>&1 ||
		fail "cannot fetch the kernel $kernel, its source, or the headers of libibverbs: $(tail -3 apt.log)"
	unpack_root
	build_peer
	build_siw "$kernel" linux-source-*.deb
	unpack_kernel "$kernel" linux-image-*.deb
	(cd root && find . -print0 | cpio --null --create --format=newc --owner=0:0 --quiet) >image.cpio
	mv image.cpio vmlinuz "$cache/"
	recipe >"$cache/recipe"
	cd "$cache"; rm -rf "$work"
	echo "guest.sh: built Linux $version with siw in $((SECONDS - begin)) s, $(du -h image.cpio | cut -f1) in $cache"
}

# ---------------------------------------------------------------- run

# The process of this guest, or nothing: a number left in a file may by now
# belong to somebody else's process.
guest_pid() {
	local pid
	pid=$(cat "$run/pid" 2>/dev/null) && [[ $pid ]] || return 0
	tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$run/pid" && echo "$pid"
	return 0
}

accelerator() {
	if [[ ${IWARP_GUEST_ACCEL:-} ]]; then echo "$IWARP_GUEST_ACCEL"
	# A device without the processor's flag has been seen: QEMU took it and the guest never ran.
	elif [[ -r /dev/kvm && -w /dev/kvm ]] && grep -qwE 'vmx|svm' /proc/cpuinfo; then echo kvm:tcg
	else echo tcg; fi
}

up() {
	local variant=default shell=18022 limit=180 life=3600 options forward='' pid begin=$SECONDS accel=()
	while (($#)); do
		(($# > 1)) || usage "$1 needs a value"
		case $1 in
		--variant) variant=$2 ;;
		--shell) shell=$2 ;;
		--forward) [[ $2 == *:* ]] || usage "--forward $2: want PORT:GUESTPORT"
			forward+=",hostfwd=tcp:127.0.0.1:${2%%:*}-:${2##*:}" ;;
		--run) run=$2 ;;
		--timeout) limit=$2 ;;
		--life) life=$2 ;;
		*) usage "up: no option $1" ;;
		esac
		shift 2
	done
	case $variant in
	default) options=crc=0 ;;
	crc) options=crc=1 ;;
	p2p) options=p2p=1 ;;
	rev1) options=rev=1 ;;
	*) usage "no variant $variant" ;;
	esac
	check
	built || no_image
	mkdir -p "$run"; run=$(cd "$run" && pwd)
	[[ -z $(guest_pid) ]] || fail "a guest is up in $run already (process $(guest_pid))"
	local a; for a in $(accelerator | tr : ' '); do accel+=(-accel "$a"); done
	rm -f "$run"/{pid,shell,console}
	qemu-system-x86_64 "${accel[@]}" -cpu max -m "${IWARP_GUEST_MEM:-768}" -no-reboot \
		-display none -monitor none -serial "file:$run/console" \
		-kernel "$cache/vmlinuz" -initrd "$cache/image.cpio" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init iwarp.siw=$options iwarp.life=$life" \
		-netdev "user,id=net,hostfwd=tcp:127.0.0.1:$shell-:22$forward" -device virtio-net-pci,netdev=net,romfile= \
		-pidfile "$run/pid" -daemonize 2>"$run/qemu.log" || fail "QEMU does not start: $(tail -3 "$run/qemu.log")"
	echo "$shell" >"$run/shell"
	until grep -qs 'IWARP GUEST READY' "$run/console"; do
		pid=$(guest_pid)
		[[ $pid ]] || { tail -n 15 "$run/console" >&2; fail "the guest ended while booting"; }
		((SECONDS - begin < limit)) || { tail -n 15 "$run/console" >&2; down; fail "the guest was not ready in $limit s"; }
		sleep 0.2
	done
	(exec_ true) || { down; fail "the guest takes no commands"; }
	echo "guest.sh: $variant guest up in $((SECONDS - begin)) s, process $(guest_pid)"
}

exec_() {
	local shell line held='' first=1 status=''
	shell=$(cat "$run/shell" 2>/dev/null) || fail "no guest in $run"
	exec 3<>"/dev/tcp/127.0.0.1/$shell" || fail "the guest in $run does not answer"
	printf '%s\n' "$(printf '%s' "$*" | base64 -w 0)" >&3
	# A line is held back until the next one: the one before the status may be the
	# empty line that the guest puts there.
	while IFS= read -r line <&3; do
		if [[ $line == $'\036exit '* ]]; then status=${line#*exit }; break; fi
		((first)) || printf '%s\n' "$held"
		held=$line first=0
	done
	[[ -z $held ]] || printf '%s\n' "$held"
	exec 3>&-
	[[ $status ]] || fail "the guest went away while the command ran"
	return "$status"
}

down() {
	local pid; pid=$(guest_pid)
	if [[ $pid ]]; then
		kill "$pid" 2>/dev/null || true
		for _ in {1..50}; do
			[[ $(guest_pid) ]] || break
			sleep 0.1
		done
		[[ -z $(guest_pid) ]] || kill -KILL "$pid" 2>/dev/null || true
	fi
	rm -f "$run"/{pid,shell}
}

main() {
	local command=${1:-}
	(($#)) && shift
	case $command in
	exec | down)
		if [[ ${1:-} == --run ]]; then (($# > 1)) || usage "--run needs a value"; run=$2; shift 2; fi
		[[ ! -d $run ]] || run=$(cd "$run" && pwd) ;;
	esac
	case $command in
	build) build ;;
	up) up "$@" ;;
	exec) (($#)) || usage "exec needs a command"; exec_ "$@" ;;
	down) down ;;
	check) check; echo "guest.sh: a guest can run here" ;;
	*) usage "want build, up, exec, down or check" ;;
	esac
}

main "$@"
