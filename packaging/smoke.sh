#!/usr/bin/env bash
# Tests that dist/postrider runs alone: copied to an empty directory and run without environment, it prints its version,
# help and OpenAPI document. As `postrider dev` it accepts the printed email, signs it, delivers it to its simulated
# recipient with dkim=pass, receives the reply, exits with 0 on SIGTERM and leaves no files behind. Stops at the first
# failure.
#
#   packaging/smoke.sh [EXECUTABLE]
#
# POSTRIDER_SMOKE_WITH="qemu-aarch64-static -L DIR" runs an executable of another architecture, which can have been
# built without a code cache. POSTRIDER_SMOKE_CACHE=accepted requires one.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
built=${1:-$root/dist/postrider}
[ -x "$built" ] || { echo "smoke: $built does not exist; run npm run build" >&2; exit 1; }

read -ra with <<<"${POSTRIDER_SMOKE_WITH:-}"
[ ${#with[@]} = 0 ] || with[0]=$(command -v "${with[0]}")

. "$root/packaging/proof.sh"
# Prints the value of a key in the one-line JSON document of dev. These values contain no escapes.
value() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$place/out"; }

mkdir "$place/bin" "$place/run" "$place/tmp"
cp "$built" "$place/bin/postrider"
cd "$place/run"
postrider() { env -i TMPDIR="$place/tmp" "${with[@]}" "$place/bin/postrider" "$@"; }

say 'version, help, openapi'
said=$(env -i "${with[@]}" "$place/bin/postrider" --version 2>"$place/err")
[ ! -s "$place/err" ] || fail "--version printed on stderr: $(cat "$place/err")"
[ "$said" = "$version" ] || fail "its version is $said, but package.json has $version"
postrider --json version | grep -q '"built_from":"bare"' || fail 'version --json does not report built_from "bare"'
postrider help | grep -q 'serve' || fail 'help does not list serve'
postrider openapi | grep -q '"openapi": *"3\.' || fail 'openapi prints no OpenAPI document'
if postrider no-such-command 2>/dev/null; then fail 'an unknown command was accepted'; else code=$?; fi
[ "$code" = 2 ] || fail "an unknown command exits with $code, not 2"

say 'size and code cache'
octets=$(stat -c %s "$built")
[ "$octets" -le 136000000 ] || fail "it has $octets bytes, more than 136,000,000"
# Without a Node of its architecture, the build makes no code cache. A rejected one slows the start.
case $(env -i NODE_DEBUG_NATIVE=SEA "${with[@]}" "$place/bin/postrider" --version 2>&1) in
*'code cache accepted'*) ;;
*'code cache rejected'*) fail 'its code cache is rejected' ;;
*) if [ ${#with[@]} = 0 ] || [ "${POSTRIDER_SMOKE_CACHE:-}" = accepted ]; then fail 'it has no code cache'; fi ;;
esac

say 'dev, on free ports'
env -i TMPDIR="$place/tmp" "${with[@]}" "$place/bin/postrider" dev --json --http 127.0.0.1:0 --smtp 127.0.0.1:0 >"$place/out" 2>"$place/err" &
server=$!
await '"token"' "$place/out" it
[ "$(wc -l <"$place/out")" = 1 ] || fail 'dev --json printed more than one document'

say 'the printed email'
if command -v curl >/dev/null; then
  # The printed line, with unescaped JSON quotes.
  line=$(sed -n 's/.*"curl":"\(.*\)","curl_received".*$/\1/p' "$place/out" | sed 's/\\"/"/g; s/\\\\/\\/g')
  answer=$(eval "$line --noproxy '*'") || fail "the printed curl command failed with $?: $line"
  case $answer in *'"status":"queued"'*) ;; *) fail "it returned $answer" ;; esac
else
  say 'curl is not installed: posting over a bare connection'
  url=$(value api)
  host=${url#http://}
  path=/${host#*/}
  host=${host%%/*}
  body="{\"data\":{\"type\":\"outbound-emails\",\"attributes\":{\"from\":\"$(value from)\",\"to\":\"$(value to)\",\"subject\":\"First email\",\"html\":\"<p>It works.</p>\"}}}"
  exec 3<>"/dev/tcp/${host%:*}/${host##*:}"
  printf 'POST %s/outbound-emails HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/vnd.api+json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' \
    "$path" "$host" "$(value token)" "${#body}" "$body" >&3
  read -r answer <&3
  exec 3>&-
  case $answer in *' 201 '*) ;; *) fail "it returned $answer" ;; esac
fi
await '"event":"sandbox_message_received".*"dkim":"pass"' "$place/err" it
if command -v curl >/dev/null; then
  say 'the reply, through the API'
  for try in $(seq 600); do
    answer=$(curl -s --noproxy '*' "$(value api)/inbound-emails" -H "Authorization: Bearer $(value token)")
    case $answer in *'"subject":"Re: First email"'*) break ;; esac
    [ "$try" -lt 600 ] || fail "no reply arrived: $answer"
    sleep 0.1
  done
fi

say 'SIGTERM'
kill -TERM "$server"
code=0
wait "$server" || code=$?
server=
[ "$code" = 0 ] || fail "it exited with $code"
left=$(find "$place/run" "$place/tmp" -mindepth 1)
[ -z "$left" ] || fail "it left behind: $left"
if grep -qi 'warning\|"level":"error"' "$place/err"; then fail 'it logged a warning or an error'; fi
# Under an emulator, the values would be those of the emulator.
if [ ${#with[@]} = 0 ] && [ -r /proc/self/status ]; then
  say 'an idle server'
  mkdir "$place/idle"
  printf 'hostname = "mx.smoke.test"\ndata_dir = "%s"\n[http]\nlisten = "127.0.0.1:0"\n[smtp]\nlisten = ["127.0.0.1:0"]\n[dns]\nservers = ["127.0.0.1:1"]\n' \
    "$place/idle/data" >"$place/idle/postrider.toml"
  env -i TMPDIR="$place/tmp" "$place/bin/postrider" --config "$place/idle/postrider.toml" serve >"$place/out" 2>&1 &
  server=$!
  await '"event":"server_ready"' "$place/out" it
  # Memory is returned three seconds after the start if the machine is idle by then, otherwise within some minutes. The
  # mapped executable is left out, because its share depends on the page cache.
  for try in $(seq 300); do
    kb=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$server/status")
    [ "$try" -lt 6 ] || [ "$kb" -gt 60000 ] || break
    [ "$try" -lt 300 ] || fail "it uses $kb KB of anonymous memory, more than 60,000"
    sleep 1
  done
  say "it uses $kb KB of anonymous memory"
  say 'health'
  # A server without a user cannot send or receive email (D208).
  if POSTRIDER_DATA_DIR=$place/idle/data "$place/bin/postrider" health >/dev/null 2>&1; then fail 'a server without a user is healthy'; fi
  POSTRIDER_DATA_DIR=$place/idle/data "$place/bin/postrider" user add you@smoke.test >/dev/null || fail 'user add failed'
  [ "$(POSTRIDER_DATA_DIR=$place/idle/data "$place/bin/postrider" health)" = ok ] || fail 'health does not print ok'
  # Prints the CPU time of five runs, in ms.
  cpu() { { TIMEFORMAT='%U %S' && time for _ in 1 2 3 4 5; do POSTRIDER_DATA_DIR=$place/idle/data "$place/bin/postrider" "$1" >/dev/null; done; } 2>&1 | awk '{ print int(($1 + $2) * 1000) }'; }
  health=$(cpu health) other=$(cpu --version)
  [ $((health * 10)) -le $((other * 7)) ] || fail "five health checks take $health ms of CPU, five other commands $other"
  say "a health check takes $((health / 5)) ms of CPU, another command $((other / 5))"
  kill -TERM "$server"
  wait "$server" || fail "it exited with $?"
  server=
  [ ! -e "$place/idle/data/serve.json" ] || fail 'serve.json still exists'
  if POSTRIDER_CONFIG=$place/idle/none POSTRIDER_DATA_DIR=$place/idle/data POSTRIDER_HTTP_LISTEN=127.0.0.1:1 "$place/bin/postrider" health 2>"$place/err"; then fail 'a stopped server is healthy'; fi
  grep -q 'down: no response from http://127.0.0.1:1/health' "$place/err" || fail 'health does not name the URL without a response'
fi
say 'all well'
