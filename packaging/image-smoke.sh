#!/usr/bin/env bash
# Tests the image with Podman and runc as root, without a daemon, in its own namespaces, so that port 25 is free and the
# machine does not change. The image runs on a read-only root with a single capability, logs that it is ready, sends the
# first email of `dev`, runs commands by exec, stops on SIGTERM, keeps its volume during an upgrade by tag, and rejects
# unusable setups with a fix. The arm64 image runs packaging/smoke.sh under qemu.
#
#   packaging/image-smoke.sh       after npm run image; needs podman, runc, skopeo, umoci
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [ "${1:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || { echo 'image-smoke: run it as root' >&2; exit 1; }
  exec unshare --mount --net --pid --fork --mount-proc --kill-child bash "${BASH_SOURCE[0]}" inside
fi
ip link set lo up

. "$root/packaging/proof.sh"
built=$root/dist/postrider_${version}_oci.tar
[ -f "$built" ] || fail "$built does not exist; run npm run image"
# An engine of its own: its images, containers and locks are deleted with the directory.
mkdir "$place/tmp"
export TMPDIR=$place/tmp
engine() {
  podman --root "$place/store" --runroot "$place/run" --tmpdir "$place/engine" --storage-driver vfs --runtime runc \
    --cgroup-manager cgroupfs --events-backend none --log-level error "$@"
}
store="containers-storage:[vfs@$place/store+$place/run]"
hardened=(--read-only --network host --cap-drop all --security-opt no-new-privileges
  --ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
# start NAME OPTIONS... IMAGE [ARGUMENTS...]: runs a container in the background.
start() { engine run -d --pull never --name "$1" "${hardened[@]}" "${@:2}" >"$place/out" 2>"$place/err" || fail "run of $1"; }
logs() { engine logs "$1" >"$place/log" 2>&1; }
# said TEXT NAME: waits up to 30 seconds for a text in the log of a container.
said() {
  for _ in $(seq 300); do
    logs "$2"
    if grep -q -- "$1" "$place/log"; then return 0; fi
    sleep 0.1
  done
  fail "$2 did not say $1 within 30 s"
}
# refused TEXT OPTIONS... IMAGE [ARGUMENTS...]: runs a container that must exit with 1 and this error.
refused() {
  local wanted=$1 code=0
  engine run --rm --pull never "${hardened[@]}" "${@:2}" >"$place/out" 2>"$place/err" || code=$?
  [ "$code" = 1 ] || fail "it exited with $code, not 1, instead of printing $wanted"
  grep -q -- "$wanted" "$place/err" || fail "it does not print $wanted"
  # Its log and stderr are read together, so the error is printed once (D195).
  if grep -q '"server_stopped"' "$place/out"; then fail "it prints $wanted twice"; fi
}
milliseconds() { date +%s%3N; }
# ends NAME: stops a container with SIGTERM, which must exit with 0. Sets took (ms).
ends() {
  local from
  from=$(milliseconds)
  engine stop "$1" >"$place/out" 2>&1 || fail "stop of $1"
  took=$(($(milliseconds) - from))
  [ "$(engine inspect -f '{{.State.ExitCode}}' "$1")" = 0 ] || fail "$1 ended with $(engine inspect -f '{{.State.ExitCode}}' "$1")"
}

say 'the archive: three names, two architectures, two layers each'
for tag in "$version" "${version%.*}" latest; do
  skopeo inspect --raw "oci-archive:$built:$tag" >"$place/out"
  for arch in amd64 arm64; do grep -q "\"architecture\":\"$arch\"" "$place/out" || fail "$tag has no $arch"; done
done
for arch in amd64 arm64; do
  skopeo copy -q --override-arch "$arch" "oci-archive:$built:$version" "oci:$place/$arch:$version"
  octets=$(du -sb "$place/$arch/blobs" | cut -f1)
  say "$arch: $octets bytes"
  [ "$octets" -lt 54000000 ] || fail "the image for $arch has $octets bytes"
done
skopeo copy -q "oci:$place/$(dpkg --print-architecture):$version" "$store"localhost/postrider:"$version"
image=localhost/postrider:$version

say 'ready on a read-only root, with NET_BIND_SERVICE only and no new privileges'
from=$(milliseconds)
start one --cap-add NET_BIND_SERVICE -v postrider:/var/lib/postrider -e POSTRIDER_HOSTNAME=mx.image.test "$image"
said '"event":"server_ready"' one
say "ready $(($(milliseconds) - from)) ms after the command"
said '\[::\]:25' one
said '"setup_incomplete".*podman exec -it CONTAINER postrider init' one
# A server without a user cannot send or receive email (D208).
if engine exec one /usr/bin/postrider health >"$place/out" 2>&1; then fail 'a server without a user is healthy'; fi
grep -q 'This server is not set up' "$place/out" || fail 'health does not report that the server is not set up'
engine exec one /usr/bin/postrider --json version >"$place/out"
grep -q '"built_from":"image"' "$place/out" || fail 'version does not report built_from "image"'
grep -q '"config":null' "$place/out" || fail 'it found a configuration in an empty volume'

say 'init by exec writes the configuration next to the data, and the next start reads it'
engine exec one /usr/bin/postrider --json init --domain image.test --hostname mx.image.test --email me@image.test >"$place/out"
grep -q '"config":"/var/lib/postrider/postrider.toml"' "$place/out" || fail 'init wrote elsewhere'
grep -q '"data_dir":"/var/lib/postrider"' "$place/out" || fail 'init created the data elsewhere'
engine exec one /usr/bin/postrider health >"$place/out" || fail 'its health check fails'
ends one
say "SIGTERM: stopped after $took ms, including the engine"
[ "$took" -lt 1000 ] || fail "an idle server took $took ms"
engine rm one >/dev/null

say 'an upgrade by tag on a copy of the volume'
from_volume=$(engine volume inspect -f '{{.Mountpoint}}' postrider)
engine volume create copy >/dev/null
cp -a "$from_volume/." "$(engine volume inspect -f '{{.Mountpoint}}' copy)/"
chown 10025:10025 "$(engine volume inspect -f '{{.Mountpoint}}' copy)"
chmod 700 "$(engine volume inspect -f '{{.Mountpoint}}' copy)"
engine tag "$image" localhost/postrider:next
# Before the upgrade: the new image checks a copy of the data, next to the running server of the old one.
start former --cap-add NET_BIND_SERVICE -v copy:/var/lib/postrider "$image"
said '"event":"server_ready"' former
engine run --rm --pull never "${hardened[@]}" -v copy:/var/lib/postrider localhost/postrider:next --json upgrade --check \
  >"$place/out" 2>"$place/err" || fail 'upgrade --check of the new image'
grep -q '"ready":true' "$place/out" || fail 'the new image is not ready'
ends former
start two --cap-add NET_BIND_SERVICE -v copy:/var/lib/postrider localhost/postrider:next
said '"event":"server_ready"' two
engine exec two /usr/bin/postrider --json domain list >"$place/out"
grep -q '"name":"image.test"' "$place/out" || fail 'the domain is not there after the upgrade'
ends two

say 'a first start with POSTRIDER_INIT_*, port 25 by the sysctl of the host'
old_port=$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)
echo 25 >/proc/sys/net/ipv4/ip_unprivileged_port_start
start three -v third:/var/lib/postrider -e POSTRIDER_HOSTNAME=mx.third.test -e POSTRIDER_INIT_DOMAIN=third.test \
  -e POSTRIDER_INIT_EMAIL=me@third.test "$image"
said 'user invite' three
[ "$(grep -c '"event":"initial_setup_pending"' "$place/log")" = 1 ] || fail 'the first start did not log the initial setup'
if grep '"event":"initial_setup_pending"' "$place/log" | grep -q sign_in; then fail 'the event repeats the text that follows it'; fi
# The text for users: each record on a line, the link, and commands as they are typed on the host.
grep -q '^   DKIM  *TXT  *[a-z0-9]*\._domainkey\.third\.test  *v=DKIM1; k=rsa; p=' "$place/log" || fail 'the log has no record to copy'
grep -q '^   HOST_ADDRESS  *A  *mx\.third\.test  *' "$place/log" || fail 'the log has no record of the address'
grep -q 'PTR record (reverse DNS)' "$place/log" || fail 'the log does not name the PTR record'
grep -q '^   http://127\.0\.0\.1:8025/join?link=' "$place/log" || fail 'the log has no link'
grep -q 'podman exec CONTAINER postrider domain check third\.test' "$place/log" || fail 'a command is not printed as it is typed on the host'
engine exec three /usr/bin/postrider domain records third.test >"$place/out"
grep -q '_domainkey.third.test' "$place/out" || fail 'domain records prints no key'
if engine exec three /usr/bin/postrider user passwd me@third.test >"$place/out" 2>&1 </dev/null; then fail 'passwd accepted an empty input'; fi
grep -q 'podman exec -it CONTAINER postrider user passwd me@third.test' "$place/out" || fail 'passwd does not print the command with a prompt'
echo 'correct horse battery' | engine exec -i three /usr/bin/postrider user passwd me@third.test >"$place/out" 2>&1 || fail 'passwd by a pipe'
ends three
say 'SIGTERM at the moment of server_ready stops the server with 0'
start five -v third:/var/lib/postrider "$image"
logs five
until grep -q '"event":"server_ready"' "$place/log"; do logs five; done
ends five
[ "$took" -lt 2000 ] || fail "a server that had just started took $took ms"
if grep -q '"initial_setup_pending"' "$place/log"; then fail 'it logs the initial setup without POSTRIDER_INIT_*'; fi
echo "$old_port" >/proc/sys/net/ipv4/ip_unprivileged_port_start

say 'dev: the first email'
# Prints the value of a key in the one-line JSON document of dev.
value() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$place/log"; }
sandbox() {
  start "$1" --tmpfs /tmp:exec -v sandbox:/var/lib/postrider "$image" \
    dev --json --http 127.0.0.1:0 --smtp 127.0.0.1:0 --data /var/lib/postrider/sandbox
  said '"token"' "$1"
  line=$(sed -n 's/.*"curl":"\(.*\)","curl_received".*$/\1/p' "$place/log" | sed 's/\\"/"/g; s/\\\\/\\/g')
}
sandbox dev
post() { eval "$line --noproxy '*' --silent"; }
answer=$(post) || fail "the printed curl command failed with $?: $line"
case $answer in *'"status":"queued"'*) ;; *) fail "it returned $answer" ;; esac
said '"event":"sandbox_message_received".*"dkim":"pass"' dev

say 'stop under load: every accepted email is stored and delivered afterwards'
: >"$place/promised"
(while answer=$(post 2>/dev/null); do
  printf '%s\n' "$answer" | sed -n 's/.*"data":{[^{}]*"id":"\([^"]*\)".*"status":"queued".*/\1/p' >>"$place/promised"
done) &
poster=$!
for _ in $(seq 300); do [ "$(wc -l <"$place/promised")" -lt 15 ] || break; sleep 0.1; done
ends dev
wait "$poster"
count=$(wc -l <"$place/promised")
[ "$count" -ge 15 ] || fail "only $count emails were accepted: $answer"
say "stopped after $took ms, with $count emails accepted"
sandbox again
api=$(value api)
token=$(value token)
while read -r id; do
  for try in $(seq 300); do
    case $(curl -s --noproxy '*' -H "Authorization: Bearer $token" "$api/outbound-emails/$id") in
    *'"status":"sent"'* | *'"status":"delivered"'*) break ;;
    esac
    [ "$try" -lt 300 ] || fail "the email $id was accepted, but is not delivered"
    sleep 0.1
  done
done <"$place/promised"
ends again

say 'unusable setups are rejected in a sentence'
refused 'cap-add NET_BIND_SERVICE.*ip_unprivileged_port_start=25' -v third:/var/lib/postrider "$image"
mkdir -m 755 "$place/theirs" "$place/open"
chown 10025:10025 "$place/open"
refused 'mounted at /var/lib/postrider belongs to user 0.*chown -R 10025:10025' -v "$place/theirs:/var/lib/postrider" "$image"
refused 'is mounted read-only.*":ro"' -v third:/var/lib/postrider:ro "$image"
refused 'in memory (tmpfs).*--ephemeral' --mount type=tmpfs,destination=/var/lib/postrider,tmpfs-mode=700 "$image"
refused 'Other users can read the directory mounted at /var/lib/postrider: on the host' -v "$place/open:/var/lib/postrider" "$image"
mkdir "$place/layer"
mount -t tmpfs none "$place/layer"
mkdir "$place/layer/lower" "$place/layer/upper" "$place/layer/work" "$place/layer/all"
chown 10025:10025 "$place/layer/upper"
chmod 700 "$place/layer/upper"
mount -t overlay overlay -o "lowerdir=$place/layer/lower,upperdir=$place/layer/upper,workdir=$place/layer/work" "$place/layer/all"
refused "container's own layer.*--ephemeral" -v "$place/layer/all:/var/lib/postrider" "$image"
start four --cap-add NET_BIND_SERVICE -v "$place/layer/all:/var/lib/postrider" "$image" serve --ephemeral
said '"event":"server_ready"' four
ends four
refused 'POSTRIDER_HOST_NAME is not a setting.*POSTRIDER_HOSTNAME' -v third:/var/lib/postrider -e POSTRIDER_HOST_NAME=x "$image"
engine rm -fa >/dev/null
umount "$place/layer/all" "$place/layer"

say 'arm64, with the libraries and the code cache of its image'
if command -v qemu-aarch64-static >/dev/null; then
  umoci unpack --image "$place/arm64:$version" "$place/unpacked" >/dev/null 2>&1
  POSTRIDER_SMOKE_CACHE=accepted POSTRIDER_SMOKE_WITH="qemu-aarch64-static -L $place/unpacked/rootfs" "$root/packaging/smoke.sh" "$place/unpacked/rootfs/usr/bin/postrider"
else
  say 'not run: qemu-aarch64-static is not installed'
fi
say 'all well'
