# Shared by the test scripts of packaging, which source it: the version, a temporary directory and a server that are
# cleaned up at the end, and the output. A script that runs itself again in namespaces passes its directory as
# PROOF_PLACE and deletes it afterwards.

proof=$(basename "$0" .sh)
version=$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$root/package.json")
given=${PROOF_PLACE:-}
# Not for the scripts that this one runs.
unset PROOF_PLACE
place=${given:-$(mktemp -d)}
# The running server, if any. If it leads a process group, the group is killed.
server=
finish() {
  if [ -n "$server" ]; then kill -KILL -- "-$server" 2>/dev/null || kill -KILL "$server" 2>/dev/null || true; fi
  [ -n "$given" ] || rm -rf "$place"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

say() { printf '%s: %s\n' "$proof" "$*"; }
# fail TEXT: prints the reason with the last output, and exits.
fail() {
  say "FAILED: $*" >&2
  for file in "$place"/out "$place"/err "$place"/log; do if [ -s "$file" ]; then sed 's/^/  /' "$file" >&2; fi; done
  exit 1
}
# await TEXT FILE NAME: waits up to 60 seconds for a text in an output file of the server.
await() {
  for _ in $(seq 600); do
    if grep -q -- "$1" "$2" 2>/dev/null; then return 0; fi
    kill -0 "$server" 2>/dev/null || fail "$3 exited before it printed $1"
    sleep 0.1
  done
  fail "$3 did not print $1 within 60 s"
}
