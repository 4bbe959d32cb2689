#!/bin/sh
# boot.sh ROOT GROUP v1|v2 starts a machine from the file system in ROOT: a
# container with systemd as process 1 and its own network. Its cgroups are GROUP in
# each hierarchy of the host (v1), or cgroup v2 only. /proc/sys and /sys belong to
# the host and are read-only. Killing unshare ends the machine.
set -e
root=$1
if [ "$4" != inside ]; then
	for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[ -e "$hierarchy/cgroup.procs" ] || continue
		mkdir "$hierarchy/$2"
		for file in cpuset.cpus cpuset.mems; do # no process can join while they are empty
			[ ! -e "$hierarchy/$2/$file" ] || cat "$hierarchy/$file" >"$hierarchy/$2/$file"
		done
		echo $$ >"$hierarchy/$2/cgroup.procs"
	done
	exec unshare --cgroup --mount --uts --ipc --net --pid --fork --kill-child=KILL sh "$0" "$1" "$2" "$3" inside
fi

groups=$root/sys/fs/cgroup
legacy() {
	mount -t tmpfs -o mode=755 tmpfs "$groups"
	while IFS=: read -r id names path; do
		name=${names#name=}
		mkdir -p "$groups/${name:-unified}"
		case $id:$names in
		0:) mount -t cgroup2 cgroup2 "$groups/unified" ;;
		*:name=*) mount -t cgroup -o "none,$names" cgroup "$groups/$name" ;;
		*) mount -t cgroup -o "$names" cgroup "$groups/$names" ;;
		esac
	done </proc/self/cgroup
}

mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
cat /proc/sys/kernel/random/uuid >"$root/etc/boot-id" # each boot has its own
mount --bind "$root/etc/boot-id" "$root/proc/sys/kernel/random/boot_id"
mount -t sysfs -o ro sysfs "$root/sys"
case $3 in
v1) legacy ;;
v2) mount -t cgroup2 cgroup2 "$groups" ;;
esac
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
	: >"$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
cd "$root"
mkdir .around
pivot_root . .around
umount -l /.around
rmdir /.around
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd --log-target=journal --show-status=no
