#!/bin/sh
# Runs test files with the pinned Node and what each of them needs: sh test/run.sh [OPTION of node --test...] FILE...
#
# Options of the form --NAME=VALUE may also follow the files: Node itself would pass them over there without a word.
#
# ending.ts is named by an absolute file: URL, because processes that tests start elsewhere inherit it. In a path the
# characters #, ?, % and \ mean nothing; in a URL they do.
set -u

cd "$(dirname "$0")/.." || exit 1
root=$(pwd -P | sed 's/%/%25/g; s/#/%23/g; s/?/%3F/g; s/\\/%5C/g')

given=$#
for argument do
  case $argument in --*=*) set -- "$@" "$argument" ;; esac
done
seen=0
for argument do
  [ "$seen" -lt "$given" ] || break
  case $argument in --*=*) ;; *) set -- "$@" "$argument" ;; esac
  seen=$((seen + 1))
done
shift "$given"
exec sh bin/node.sh --import "file://$root/test/kit/ending.ts" --test "$@"
