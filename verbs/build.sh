#!/bin/sh
# build.sh [FOLDER]: builds what `iwarp verbs` needs: libiwarpverbs.so, which programs
# preload, libiwarpcore.so, which that loads, and the sysfs folder that rdma-core reads.
# FOLDER is by default where `iwarp verbs` looks first: iwarp/verbs in the cache folder of
# the user. Needs Go, a C compiler, and the headers of libibverbs (libibverbs-dev).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
to=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/iwarp/verbs}
mkdir -p "$to"
to=$(cd "$to" && pwd)
${CC:-cc} -O2 -Wall -Wextra -fPIC -shared -o "$to/libiwarpverbs.so.new" "$here/shim/shim.c" -ldl -lpthread
(cd "$here" && CGO_ENABLED=1 go build -trimpath -buildmode=c-shared -o "$to/libiwarpcore.so.new" ./core)
rm -f "$to/libiwarpcore.so.h" "$to/libiwarpcore.so.new.h" "$to/libiwarpcore.h"
mv "$to/libiwarpverbs.so.new" "$to/libiwarpverbs.so"
mv "$to/libiwarpcore.so.new" "$to/libiwarpcore.so"

put() { # put FILE TEXT
  mkdir -p "$(dirname "$to/sysfs/$1")"
  printf '%s\n' "$2" > "$to/sysfs/$1"
}
device=rxe_iwarp0
port=class/infiniband/$device/ports/1
put class/infiniband_verbs/abi_version 6
put class/infiniband_verbs/uverbs0/ibdev "$device"
put class/infiniband_verbs/uverbs0/abi_version 1
put class/infiniband_verbs/uverbs0/dev 231:192
put "class/infiniband/$device/node_type" '4: RNIC'
put "class/infiniband/$device/node_guid" 0200:0000:0000:0001
put "class/infiniband/$device/sys_image_guid" 0200:0000:0000:0001
put "class/infiniband/$device/fw_ver" 1.0.0
put "class/infiniband/$device/board_id" iwarp
put "$port/gids/0" 0200:0000:0001:0000:0000:0000:0000:0000
put "$port/gid_attrs/types/0" 'IB/RoCE v1'
put "$port/gid_attrs/ndevs/0" lo
put "$port/pkeys/0" 0xffff
put class/misc/rdma_cm/abi_version 4
echo "built in $to"
