# Helpers of .ci/run; sourced, not run. A stage runs under `set -eEuo pipefail`.
# shellcheck shell=bash disable=SC2154 # top, cache and scratch come from .ci/run

# skip REASON: end the stage as skipped.
skip() {
  printf '%s\n' "$*" > "$scratch/reason"
  exit 77
}

# fail REASON: end the stage as failed.
fail() {
  echo "error: $*" >&2
  exit 1
}

# show COMMAND...: print a command, then run it.
show() {
  echo "\$ $*"
  "$@"
}

# budget SECONDS COMMAND...: run it, and fail when it took longer.
budget() {
  local limit=$1 start=$SECONDS
  shift
  "$@"
  local took=$((SECONDS - start))
  ((took <= limit)) || fail "took $took s, the budget is $limit s: $*"
}

# files PATTERN...: the project's files, committed or not, that match.
files() { git ls-files --cached --others --exclude-standard --deduplicate -- "$@"; }

# The modules with heavy dependencies or a C part. The stage modules tests them,
# once, so that the matrix of the others stays short.
apart='sctp netstack verbs metrics'

# modules: the folders of all go.mod files, those apart last.
modules() {
  local all mod
  all=$(files go.mod '*/go.mod' | xargs -n1 dirname | sort)
  for mod in $all; do is_apart "$mod" || echo "$mod"; done
  for mod in $all; do ! is_apart "$mod" || echo "$mod"; done
}

is_apart() { [[ " $apart " == *" ${1%%/*} "* ]]; }

# in_modules "MODULE..." COMMAND...: run it in each of the folders, all of them even
# when one fails.
in_modules() {
  local mods=$1 mod bad=0
  shift
  for mod in $mods; do
    [ "$mod" = . ] || echo "# in $mod:"
    (cd "$mod" && "$@") || bad=1
  done
  return "$bad"
}

# all_modules, each_module, each_apart COMMAND...: run it in the folder of each
# go.mod; without those apart; in those apart only.
all_modules() { in_modules "$(modules)" "$@"; }
each_module() { in_modules "$(for mod in $(modules); do is_apart "$mod" || echo "$mod"; done)" "$@"; }
each_apart() { in_modules "$(for mod in $(modules); do ! is_apart "$mod" || echo "$mod"; done)" "$@"; }

# tool NAME ARGUMENT...: run a tool of .ci/tools, installed at its first use.
tool() {
  local name=$1 pkg version dir
  shift
  read -r pkg version < <(awk -v name="$name" '$1 == name { print $2, $3 }' "$top/.ci/tools")
  dir=$cache/$(go env GOVERSION)/$name@$version
  if [ ! -x "$dir/$name" ]; then
    echo "installing $name $version" >&2
    env -u GOOS -u GOARCH -u CGO_ENABLED GOBIN="$dir" go install "$pkg@$version" 2> "$scratch/install" || {
      cat "$scratch/install" >&2
      return 1
    }
  fi
  "$dir/$name" "$@"
}

# have COMMAND PACKAGE: is the command here? CI's root installs it from Debian.
# Otherwise the reason why not is left in $missing.
have() {
  command -v "$1" > /dev/null || install "$1" "$2"
}

# have_file FILE PACKAGE: likewise, for a file.
have_file() {
  [ -e "$1" ] || install "$1" "$2"
}

install() {
  missing="no $1 (Debian package $2), and only root with CI=true installs packages"
  [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
  missing="apt-get could not install $2"
  if [ ! -e "$scratch/apt-updated" ]; then
    apt-get update -qq > "$scratch/apt" 2>&1 || tail -n 3 "$scratch/apt"
    touch "$scratch/apt-updated"
  fi
  echo "installing Debian package $2"
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "$2" < /dev/null > "$scratch/apt" 2>&1 || {
    tail -n 3 "$scratch/apt"
    return 1
  }
}

# need COMMAND PACKAGE: as have, but skip the stage without it.
need() { have "$@" || skip "$missing"; }

need_file() { have_file "$@" || skip "$missing"; }

# gotest ARGUMENT...: `go test`, which names the skipped tests and their reasons at the end.
# The time limit of a package lies below that of the stage, so that a hang shows its stacks.
# All results go to $scratch/ran, for the stage conformance.
gotest() {
  local args=(-count=1 -timeout=3m "$@") code=0
  echo "\$ go test ${args[*]}"
  tool gotestsum --no-color --format pkgname --format-icons text --format-hide-empty-pkg \
    --jsonfile "$scratch/json" -- "${args[@]}" || code=$?
  cat "$scratch/json" >> "$scratch/ran"
  return "$code"
}
