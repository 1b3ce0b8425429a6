# What the proofs of packaging share, sourced by each: the version, a place and a server that end with it, and what is
# said. A proof that runs itself again in namespaces passes its place on as PROOF_PLACE, and removes it when these are
# over.

proof=$(basename "$0" .sh)
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$root/package.json")
given=${PROOF_PLACE:-}
# Not for the proofs that this one runs.
unset PROOF_PLACE
place=${given:-$(mktemp -d)}
# The server that runs, if one does. One that leads a process group ends with all of it.
server=
finish() {
  if [ -n "$server" ]; then kill -KILL -- "-$server" 2>/dev/null || kill -KILL "$server" 2>/dev/null || true; fi
  [ -n "$given" ] || rm -rf "$place"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

say() { printf '%s: %s\n' "$proof" "$*"; }
# Says why, with what was printed last, and ends.
fail() {
  say "FAILED: $*" >&2
  for file in "$place"/out "$place"/err "$place"/log; do if [ -s "$file" ]; then sed 's/^/  /' "$file" >&2; fi; done
  exit 1
}
# await TEXT FILE WHO: waits at most 60 seconds for a line in a file of the server's.
await() {
  for _ in $(seq 600); do
    if grep -q -- "$1" "$2" 2>/dev/null; then return 0; fi
    kill -0 "$server" 2>/dev/null || fail "$3 ended before it said $1"
    sleep 0.1
  done
  fail "$3 did not say $1 within 60 s"
}
