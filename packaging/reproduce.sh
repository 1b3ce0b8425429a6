#!/usr/bin/env bash
# Proves that a release can be built again: the project is copied to another folder and built there, 40 days later by
# the clock of its programs, and what was made is equal to the octet to what lies in dist/: executables, packages, the
# image and bills of materials (E1, I1, S3; Shows 1). There it also builds for another architecture that cannot run
# here, without a code cache, and refuses one that V8 rejects (E3).
#
#   packaging/reproduce.sh [--unstripped]      after npm run package and npm run sbom; the image where there is one
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/packaging/proof.sh"

case $(dpkg --print-architecture) in
amd64) other=arm64 node=arm64 emulator=qemu-aarch64-static ;;
*) other=amd64 node=x64 emulator=qemu-x86_64-static ;;
esac
image=postrider_${version}_oci.tar
files=(postrider "postrider-linux-$node")
for arch in "$(dpkg --print-architecture)" "$other"; do
  files+=("postrider_${version}_$arch.deb")
  for kind in "$arch" "image_$arch"; do files+=("postrider_${version}_$kind.cdx.json" "postrider_${version}_$kind.spdx.json"); done
done
for file in "${files[@]}"; do
  [ -f "$root/dist/$file" ] || fail "dist/$file is not there; npm run package and npm run sbom make it"
done
if [ "$root/dist/$image" -nt "$root/dist/postrider_${version}_$other.deb" ]; then
  files+=("$image")
else
  say 'not compared: npm run image has made no image of what is packaged'
fi

copy=$place/another/folder
mkdir -p "$copy"
# What git knows or would take, and the commit, which is built in.
(cd "$root" && git ls-files -coz --exclude-standard | xargs -0 cp -a --parents -t "$copy" && cp -a .git node_modules "$copy")
# On another day, where that can be had. Timers go by the monotonic clock, and files keep their times.
later=(env)
if command -v faketime >/dev/null; then
  later=(env NO_FAKE_STAT=1 FAKETIME_DONT_FAKE_MONOTONIC=1 faketime -f '+40d')
else
  say 'not on another day: faketime is not installed'
fi
made() { (cd "$copy" && "$@") >"$place/out" 2>&1 || fail "in the other folder: $*"; }
say "a second build in another folder, on $("${later[@]}" date +%F)"
made "${later[@]}" npm run --silent package -- "$@"
made "${later[@]}" npm run --silent sbom
case ${files[*]} in *"$image"*) made "${later[@]}" npm run --silent image -- "$@" ;; esac

for file in "${files[@]}"; do
  cmp "$root/dist/$file" "$copy/dist/$file" >"$place/out" 2>&1 || fail "dist/$file is not equal to that of the second build"
  say "$file is equal"
done

built=$copy/dist/postrider-linux-$node
# An emulator of the other architecture that does what the test says: emulate LINE
mkdir "$place/bin"
emulate() {
  printf '#!/bin/sh\n%s\n' "$1" >"$place/bin/$emulator"
  chmod 755 "$place/bin/$emulator"
}
build_other() { (cd "$copy" && PATH="$place/bin:$PATH" npm run --silent build -- --arch "$node" "$@") >"$place/out" 2>&1; }

say "without $emulator: one line, and no code cache (E3)"
emulate 'exit 127'
build_other "$@" || fail 'the build'
[ "$(grep -c "^$node: .*no code cache" "$place/out")" = 1 ] || fail 'the build does not say it in one line'

if real=$(command -v "$emulator"); then
  libraries=$place/libraries
  (cd "$copy" && sh bin/node.sh -e "import('./packaging/image/base.ts').then(({ unpackBase }) => unpackBase('$other', '$libraries'))")
  NODE_DEBUG_NATIVE=SEA "$real" -L "$libraries" "$built" --version >"$place/out" 2>&1 || fail 'it does not run'
  if grep -q 'code cache' "$place/out"; then fail 'it has a code cache all the same'; fi
  "$real" -L "$libraries" "$built" --version >/dev/null 2>"$place/err"
  [ ! -s "$place/err" ] || fail 'it prints on stderr'

  say 'a code cache that V8 rejects fails the build (E3)'
  # This machine's Node injects in the place of the other's, as a build without the emulator once did.
  emulate "case \"\$*\" in *--build-sea*) shift 3; exec \"$(sh "$copy/bin/node.sh" -p process.execPath)\" \"\$@\" ;; esac; exec \"$real\" \"\$@\""
  if build_other "$@"; then fail 'the build took it'; fi
  grep -q 'V8 does not accept the code cache' "$place/out" || fail 'the build does not say why'
  [ ! -e "$built" ] || fail 'what was built is still there'
else
  say "not run: $emulator is not installed"
fi
say 'all well'
