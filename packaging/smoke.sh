#!/usr/bin/env bash
# Proves that dist/postrider needs nothing but itself: copied to an empty directory and run without environment it says
# its version, its help and its API, and as `postrider dev` takes the printed mail, signs it, delivers it to its own
# exchanger with dkim=pass, receives the reply, ends with 0 on SIGTERM and leaves nothing behind. Stops at the first
# failure.
#
#   packaging/smoke.sh [EXECUTABLE]
#
# POSTRIDER_SMOKE_WITH="qemu-aarch64-static -L DIR" runs one of another architecture, which may have been built without
# a code cache; with POSTRIDER_SMOKE_CACHE=accepted it may not.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
built=${1:-$root/dist/postrider}
[ -x "$built" ] || { echo "smoke: $built is not there; npm run build makes it" >&2; exit 1; }

read -ra with <<<"${POSTRIDER_SMOKE_WITH:-}"
[ ${#with[@]} = 0 ] || with[0]=$(command -v "${with[0]}")

. "$root/packaging/proof.sh"
# The value of a key in the one-line JSON document that dev prints; none of these values holds an escape.
value() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$place/out"; }

mkdir "$place/bin" "$place/run" "$place/tmp"
cp "$built" "$place/bin/postrider"
cd "$place/run"
postrider() { env -i TMPDIR="$place/tmp" "${with[@]}" "$place/bin/postrider" "$@"; }

say 'version, help, openapi'
said=$(env -i "${with[@]}" "$place/bin/postrider" --version 2>"$place/err")
[ ! -s "$place/err" ] || fail "--version printed on stderr: $(cat "$place/err")"
[ "$said" = "$version" ] || fail "it is version $said, package.json is $version"
postrider --json version | grep -q '"built_from":"bare"' || fail 'version --json does not say that it is one file alone (E8)'
postrider help | grep -q 'serve' || fail 'help does not name serve'
postrider openapi | grep -q '"openapi": *"3\.' || fail 'openapi prints no OpenAPI document'
if postrider no-such-command 2>/dev/null; then fail 'an unknown command was taken for good'; else code=$?; fi
[ "$code" = 2 ] || fail "an unknown command ends with $code, not 2"

say 'size and code cache (E2, E5)'
octets=$(stat -c %s "$built")
[ "$octets" -le 136000000 ] || fail "it has $octets octets, more than 136,000,000"
# Built where the Node of its architecture did not run it has none; a rejected one makes the start slower.
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

say 'the printed mail'
if command -v curl >/dev/null; then
  # The line as it is printed: JSON quotes unescaped, nothing else changed.
  line=$(sed -n 's/.*"curl":"\(.*\)","curl_received".*$/\1/p' "$place/out" | sed 's/\\"/"/g; s/\\\\/\\/g')
  answer=$(eval "$line --noproxy '*'") || fail "the printed curl line ended with $?: $line"
  case $answer in *'"status":"queued"'*) ;; *) fail "it answered $answer" ;; esac
else
  say 'curl is not installed: posting over a bare connection'
  url=$(value api)
  host=${url#http://}
  path=/${host#*/}
  host=${host%%/*}
  body="{\"data\":{\"type\":\"outbound-emails\",\"attributes\":{\"from\":\"$(value from)\",\"to\":\"$(value to)\",\"subject\":\"First mail\",\"html\":\"<p>It works.</p>\"}}}"
  exec 3<>"/dev/tcp/${host%:*}/${host##*:}"
  printf 'POST %s/outbound-emails HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/vnd.api+json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' \
    "$path" "$host" "$(value token)" "${#body}" "$body" >&3
  read -r answer <&3
  exec 3>&-
  case $answer in *' 201 '*) ;; *) fail "it answered $answer" ;; esac
fi
await '"event":"received".*"dkim":"pass"' "$place/err" it
if command -v curl >/dev/null; then
  say 'the reply, through the API'
  for try in $(seq 600); do
    answer=$(curl -s --noproxy '*' "$(value api)/inbound-emails" -H "Authorization: Bearer $(value token)")
    case $answer in *'"subject":"Re: First mail"'*) break ;; esac
    [ "$try" -lt 600 ] || fail "no reply arrived: $answer"
    sleep 0.1
  done
fi

say 'SIGTERM'
kill -TERM "$server"
code=0
wait "$server" || code=$?
server=
[ "$code" = 0 ] || fail "it ended with $code"
left=$(find "$place/run" "$place/tmp" -mindepth 1)
[ -z "$left" ] || fail "it left behind: $left"
if grep -qi 'warning\|"level":"error"' "$place/err"; then fail 'it warned or reported an error'; fi
# Under an emulator the figures are the emulator's.
if [ ${#with[@]} = 0 ] && [ -r /proc/self/status ]; then
  say 'an idle server (Y2)'
  mkdir "$place/idle"
  printf 'hostname = "mx.smoke.test"\ndata_dir = "%s"\n[http]\nlisten = "127.0.0.1:0"\n[smtp]\nlisten = ["127.0.0.1:0"]\n[dns]\nservers = ["127.0.0.1:1"]\n' \
    "$place/idle/data" >"$place/idle/postrider.toml"
  env -i TMPDIR="$place/tmp" "$place/bin/postrider" --config "$place/idle/postrider.toml" serve >"$place/out" 2>&1 &
  server=$!
  await '"event":"ready"' "$place/out" it
  # Memory goes back three seconds after the start, where the machine is idle by then, or else within some minutes. The
  # mapped program is left out: how much of it counts depends on how the file came to be in the page cache.
  for try in $(seq 300); do
    kb=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB$/\1/p' "/proc/$server/status")
    [ "$try" -lt 6 ] || [ "$kb" -gt 60000 ] || break
    [ "$try" -lt 300 ] || fail "it holds $kb KB of its own, more than 60,000"
    sleep 1
  done
  say "it holds $kb KB of its own"
  say 'health (M1)'
  [ "$(POSTRIDER_DATA_DIR=$place/idle/data "$place/bin/postrider" health)" = ok ] || fail 'health does not say ok'
  # Milliseconds of CPU of five runs.
  cpu() { { TIMEFORMAT='%U %S' && time for _ in 1 2 3 4 5; do POSTRIDER_DATA_DIR=$place/idle/data "$place/bin/postrider" "$1" >/dev/null; done; } 2>&1 | awk '{ print int(($1 + $2) * 1000) }'; }
  health=$(cpu health) other=$(cpu --version)
  [ $((health * 10)) -le $((other * 7)) ] || fail "five health checks take $health ms of CPU, five other commands $other"
  say "a health check takes $((health / 5)) ms of CPU, another command $((other / 5))"
  kill -TERM "$server"
  wait "$server" || fail "it ended with $?"
  server=
  [ ! -e "$place/idle/data/serve.json" ] || fail 'serve.json stays behind'
  if POSTRIDER_CONFIG=$place/idle/none POSTRIDER_DATA_DIR=$place/idle/data POSTRIDER_HTTP_LISTEN=127.0.0.1:1 "$place/bin/postrider" health 2>"$place/err"; then fail 'a server that ended is healthy'; fi
  grep -q 'down: nothing answers at http://127.0.0.1:1/health' "$place/err" || fail 'health does not say who does not answer'
fi
say 'all well'
