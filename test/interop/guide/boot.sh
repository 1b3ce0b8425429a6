#!/bin/sh
# Boots a Debian root with systemd in namespaces of its own: mount, pid, net, uts, ipc, cgroup.
#
#   boot.sh SECONDS BASE PLACE NAME GROUP...
#
#   SECONDS  after this long the machine is killed, even if nobody remembers it
#   BASE     the root; it stays as it is, changes go to PLACE by overlay
#   PLACE    a folder for what the machine changes, and its mount point
#   NAME     its host name
#   GROUP    control groups to live in; the last is of cgroup v2 and is the root that its systemd sees
#
# The machine waits for an interface eth0, which is moved into it from outside, and sets it up as PLACE/network says. It
# ends with this process: unshare sends SIGKILL to its init, and with init the kernel ends everything below it and every
# mount.
set -eu

case ${BOOT_STEP:-outside} in
outside)
  seconds=$1
  shift
  BOOT_STEP=join
  export BOOT_STEP
  exec timeout --signal KILL "$seconds" \
    unshare --mount --propagation private --pid --net --uts --ipc --fork --kill-child sh "$0" "$@"
  ;;
join)
  # In the groups before the cgroup namespace begins: what a process is in then is the namespace's root.
  base=$1 place=$2 name=$3
  shift 3
  for group in "$@"; do echo 0 >"$group/cgroup.procs"; done
  BOOT_STEP=init
  exec unshare --cgroup sh "$0" "$base" "$place" "$name"
  ;;
esac

base=$1 place=$2 name=$3
root=$place/root
mkdir "$place/changes" "$place/work" "$root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$place/changes,workdir=$place/work" "$root"
mount -t proc proc "$root/proc"
# The kernel is not the machine's own: its settings outside the network and its clock stay as they are.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
mount -o remount,bind,ro "$root/proc/sys"
if [ -e "$root/proc/sysrq-trigger" ]; then mount --bind /dev/null "$root/proc/sysrq-trigger"; fi
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
# A disk without an overlay, for programs that refuse to keep data on one.
mkdir "$place/disk" "$root/disk"
mount --bind "$place/disk" "$root/disk"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0:stdin 1:stdout 2:stderr; do ln -s "fd/${number%:*}" "$root/dev/${number#*:}"; done

echo "$name" >"$root/etc/hostname"
tries=0
until ip link show eth0 >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 600 ] || { echo 'boot: no eth0 came within a minute' >&2; exit 1; }
  sleep 0.1
done
ip -batch "$place/network"

cd "$root"
mkdir -p old
pivot_root . old
umount --lazy /old
rmdir /old
exec env -i container=postrider-guide PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set -sys_time,-sys_module,-sys_rawio,-syslog /lib/systemd/systemd
