#!/usr/bin/env bash
# Tests that a release is reproducible: the project is copied to another directory and built there with a clock 40 days
# ahead. The results must be identical to dist/: executables, packages, the image and bills of materials. It also builds
# there for an architecture that cannot run here, without a code cache, and rejects a code cache that V8 does not
# accept.
#
#   packaging/reproduce.sh [--unstripped]     after npm run package -- --all, npm run sbom and npm run image (optional)
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
  for kind in "$arch" "image_$arch"; do files+=("postrider_${version}_$kind.cdx.json"); done
done
for file in "${files[@]}"; do
  [ -f "$root/dist/$file" ] || fail "dist/$file does not exist; run npm run package -- --all and npm run sbom"
done
if [ "$root/dist/$image" -nt "$root/dist/postrider_${version}_$other.deb" ]; then
  files+=("$image")
else
  say 'not compared: npm run image has not built an image of these packages'
fi

copy=$place/another/folder
mkdir -p "$copy"
# All files that git tracks or would add, and the commit, which is built in.
(cd "$root" && git ls-files -coz --exclude-standard | xargs -0 cp -a --parents -t "$copy" && cp -a .git node_modules "$copy")
# On another day if faketime is installed. Timers use the monotonic clock, and files keep their times.
later=(env)
if command -v faketime >/dev/null; then
  later=(env NO_FAKE_STAT=1 FAKETIME_DONT_FAKE_MONOTONIC=1 faketime -f '+40d')
else
  say 'not on another day: faketime is not installed'
fi
made() { (cd "$copy" && "$@") >"$place/out" 2>&1 || fail "in the other directory: $*"; }
say "a second build in another directory, on $("${later[@]}" date +%F)"
made "${later[@]}" npm run --silent package -- --all "$@"
made "${later[@]}" npm run --silent sbom
case ${files[*]} in *"$image"*) made "${later[@]}" npm run --silent image -- "$@" ;; esac

for file in "${files[@]}"; do
  cmp "$root/dist/$file" "$copy/dist/$file" >"$place/out" 2>&1 || fail "dist/$file differs from that of the second build"
  say "$file is identical"
done

built=$copy/dist/postrider-linux-$node
# emulate LINE: creates an emulator of the other architecture that runs this line.
mkdir "$place/bin"
emulate() {
  printf '#!/bin/sh\n%s\n' "$1" >"$place/bin/$emulator"
  chmod 755 "$place/bin/$emulator"
}
build_other() { (cd "$copy" && PATH="$place/bin:$PATH" npm run --silent build -- --arch "$node" "$@") >"$place/out" 2>&1; }

say "without $emulator: one line, and no code cache"
emulate 'exit 127'
build_other "$@" || fail 'the build'
[ "$(grep -c "^$node: .*no code cache" "$place/out")" = 1 ] || fail 'the build does not report it in one line'

if real=$(command -v "$emulator"); then
  libraries=$place/libraries
  (cd "$copy" && sh bin/node.sh -e "import('./packaging/image/base.ts').then(({ unpackBase }) => unpackBase('$other', '$libraries'))")
  NODE_DEBUG_NATIVE=SEA "$real" -L "$libraries" "$built" --version >"$place/out" 2>&1 || fail 'it does not run'
  if grep -q 'code cache' "$place/out"; then fail 'it has a code cache nevertheless'; fi
  "$real" -L "$libraries" "$built" --version >/dev/null 2>"$place/err"
  [ ! -s "$place/err" ] || fail 'it prints on stderr'

  say 'a code cache that V8 rejects fails the build'
  # This machine's Node injects instead of the other one, as a build without the emulator once did.
  emulate "case \"\$*\" in *--build-sea*) shift 3; exec \"$(sh "$copy/bin/node.sh" -p process.execPath)\" \"\$@\" ;; esac; exec \"$real\" \"\$@\""
  if build_other "$@"; then fail 'the build accepted it'; fi
  grep -q 'V8 does not accept the code cache' "$place/out" || fail 'the build does not report the reason'
  [ ! -e "$built" ] || fail 'the rejected executable still exists'
else
  say "not run: $emulator is not installed"
fi
say 'all well'
