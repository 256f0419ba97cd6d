#!/bin/bash
# guest-test.sh: run this module's tests in the guest of cmd/iwarp/interop/guest.sh, whose
# kernel has ESP. The tests are built here, without cgo, and copied into it.
#
#   ipsec/guest-test.sh [OPTION OF THE TEST BINARY]...     such as -test.v -test.run Kernel
#
# Environment: IWARP_GUEST_SHELL, IWARP_GUEST_COPY   two ports of 127.0.0.1 to use (18122, 18123)
# Exit status: the tests'; 3 cannot run here, 4 no image: run cmd/iwarp/interop/guest.sh build first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

guest=../cmd/iwarp/interop/guest.sh
shell=${IWARP_GUEST_SHELL:-18122}
copy=${IWARP_GUEST_COPY:-18123}
work=$(mktemp -d)
trap '"$guest" down --run "$work" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

GOOS=linux GOARCH=amd64 CGO_ENABLED=0 go test -c -ldflags '-s -w' -o "$work/ipsec.test" .
"$guest" up --run "$work" --shell "$shell" --forward "$copy:9999" --life 1200
run() { "$guest" exec --run "$work" "$@"; }

# The port forwarded accepts before anybody listens in the guest: wait until somebody does.
run 'socat -u TCP-LISTEN:9999,reuseaddr CREATE:/tmp/ipsec.test,perm=0755' &
receiver=$!
run "for _ in {1..200}; do [[ \$(ss -Hltn 'sport = :9999') ]] && exit; sleep 0.05; done; exit 1"
cat "$work/ipsec.test" >"/dev/tcp/127.0.0.1/$copy"
wait "$receiver"
[[ $(run 'sha256sum </tmp/ipsec.test') == "$(sha256sum <"$work/ipsec.test")" ]] || { echo "guest-test.sh: the copy is damaged" >&2; exit 1; }

run 'uname -sr; modprobe -a xfrm_user esp4 esp6 ah4 2>&1; cd /tmp && ./ipsec.test -test.timeout 300s '"${*:--test.v}"
