#!/bin/sh
# Runs every test file, many of them in one process: sh test/unit.sh [OPTION of node --test...]
set -u

cd "$(dirname "$0")/.." || exit 1
groups=$(sh bin/node.sh test/unit.ts) || exit 1
NODE_COMPILE_CACHE=$PWD/node_modules/.cache/compile
export NODE_COMPILE_CACHE
# Names of groups have no spaces.
# shellcheck disable=SC2086
exec sh test/run.sh --test-concurrency=4 --test-timeout=240000 "$@" $groups
