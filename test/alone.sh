#!/bin/sh
# Runs each test alone and names those that pass only after others: sh test/alone.sh [FILE...]
#
# All files take an hour, so it is not a part of npm test. A test that it names fails as well with
#   sh test/run.sh FILE --test-name-pattern='its name'
set -u

cd "$(dirname "$0")/.." || exit 1
NODE_COMPILE_CACHE=$PWD/node_modules/.cache/compile
export NODE_COMPILE_CACHE
exec sh bin/node.sh test/alone/main.ts "$@"
