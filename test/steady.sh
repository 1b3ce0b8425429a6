#!/usr/bin/env bash
# Whether the tests know how fast the machine is: runs `npm test` again and again on a machine that has better things to
# do, and prints a table. By hand, before a release; it takes hours.
#
#   test/steady.sh [N]               N times (10) beside four processes that do nothing but work, and N in half a core
#   test/steady.sh [N] FILE...       the same with some test files only: quickly to find one that fails
#
# The half core is a quota in a control group (version 1 or 2, which wants root) or of systemd-run. What a failed run
# printed stays in a folder that is named at the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

times=10
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  times=$1
  shift
fi
command=(npm test)
[ $# = 0 ] || command=(sh test/run.sh "$@")
kept=$(mktemp -d "${TMPDIR:-/tmp}/postrider-steady-XXXXXX")
burners=()
group=''

finish() {
  [ ${#burners[@]} = 0 ] || kill "${burners[@]}" 2>/dev/null
  [ -z "$group" ] || rmdir "$group" 2>/dev/null
}
trap finish EXIT
trap 'exit 130' INT TERM

beside_burners() {
  for _ in 1 2 3 4; do
    # They end by themselves, whatever becomes of this script.
    timeout 7200 sh -c 'while :; do :; done' &
    burners+=($!)
  done
  "${command[@]}"
  local status=$?
  kill "${burners[@]}"
  wait "${burners[@]}"
  burners=()
  return $status
}

half_a_core() {
  if [ -w /sys/fs/cgroup/cpu/cgroup.procs ]; then
    group=/sys/fs/cgroup/cpu/postrider-steady-$$
    mkdir -p "$group" && echo 100000 >"$group/cpu.cfs_period_us" && echo 50000 >"$group/cpu.cfs_quota_us" || return 70
  elif grep -qsw cpu /sys/fs/cgroup/cgroup.subtree_control && [ -w /sys/fs/cgroup/cgroup.procs ]; then
    group=/sys/fs/cgroup/postrider-steady-$$
    mkdir -p "$group" && echo '50000 100000' >"$group/cpu.max" || return 70
  else
    systemd-run --quiet --scope --property=CPUQuota=50% "${command[@]}"
    return
  fi
  (
    echo "$BASHPID" >"$group/cgroup.procs" || exit 70
    exec "${command[@]}"
  )
}

failed=0
printf '%-14s %4s %8s  %s\n' load run seconds result
for load in beside_burners half_a_core; do
  for ((n = 1; n <= times; n++)); do
    out=$kept/$load-$n.txt
    began=$SECONDS
    "$load" >"$out" 2>&1
    status=$?
    if [ $status = 0 ]; then
      result=ok
      rm "$out"
    else
      failed=$((failed + 1))
      names=$(sed -n '1,/^✖ failing tests/d;s/^✖ \(.*\) ([0-9.]*ms)$/\1/p' "$out" | sort -u | head -5 | paste -sd ';')
      result="FAILED with $status: ${names:-$(tail -1 "$out")}"
    fi
    printf '%-14s %4s %8s  %s\n' "$load" "$n" "$((SECONDS - began))" "$result"
  done
done
printf '%s of %s runs are green\n' "$((2 * times - failed))" "$((2 * times))"
if [ $failed = 0 ]; then rmdir "$kept"; else printf 'what the others printed: %s\n' "$kept"; fi
[ $failed = 0 ]
