#!/bin/sh
# Runs test files with the pinned Node and what each of them needs: sh test/run.sh [OPTION of node --test...] FILE...
#
# ending.ts is named by an absolute file: URL, because processes that tests start elsewhere inherit it. In a path the
# characters #, ?, % and \ mean nothing; in a URL they do.
set -u

cd "$(dirname "$0")/.." || exit 1
root=$(pwd -P | sed 's/%/%25/g; s/#/%23/g; s/?/%3F/g; s/\\/%5C/g')
exec sh bin/node.sh --import "file://$root/test/kit/ending.ts" --test "$@"
