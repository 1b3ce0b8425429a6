#!/usr/bin/env bash
# Proves that a release can be built again: the project is copied to another folder, built there for this machine, and
# what was made is equal to the octet to what lies in dist/: executable, package and bills of materials.
#
#   packaging/reproduce.sh       after npm run package and npm run sbom
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/packaging/proof.sh"

version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$root/package.json")
arch=$(dpkg --print-architecture)
files=(postrider "postrider_${version}_$arch.deb" "postrider_${version}_$arch.cdx.json" "postrider_${version}_$arch.spdx.json")
for file in "${files[@]}"; do
  [ -f "$root/dist/$file" ] || fail "dist/$file is not there; npm run package and npm run sbom make it"
done

say 'a second build in another folder'
copy=$place/another/folder
mkdir -p "$copy"
# What git knows or would take, and the commit, which is built in.
(cd "$root" && git ls-files -coz --exclude-standard | xargs -0 cp -a --parents -t "$copy" && cp -a .git node_modules "$copy")
(cd "$copy" && npm run --silent package -- --arch "$arch" "$@" && npm run --silent sbom) >"$place/out" 2>&1 || fail 'the second build'

for file in "${files[@]}"; do
  cmp "$root/dist/$file" "$copy/dist/$file" >"$place/out" 2>&1 || fail "dist/$file is not equal to that of the second build"
  say "$file is equal"
done
