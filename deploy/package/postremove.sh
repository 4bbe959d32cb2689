#!/bin/sh
# Removal keeps the daemons' state. Only the purge of a .deb deletes it.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" = purge ] || exit 0
# mesos-gpu local mounts a cgroup hierarchy below its folder.
awk '$2 ~ "^/var/lib/mesos-gpu/local/" { print $2 }' /proc/mounts | sort -r | while read -r dir; do umount -l "$dir"; done
rm -rf /etc/mesos-gpu /run/mesos-gpu /var/lib/mesos-gpu/scheduler /var/lib/mesos-gpu/agent
# A running container would lose its driver libraries and its MPS connection.
if grep -Eqs '/volumes/nvidia_|/mesos-gpu-mps/' /proc/[0-9]*/mountinfo; then
	echo "mesos-gpu: containers use /var/lib/mesos-gpu/volumes or /dev/shm/mesos-gpu-mps, which stay: remove them when they have ended" >&2
else
	rm -rf /var/lib/mesos-gpu /dev/shm/mesos-gpu-mps
fi
! getent passwd mesos-gpu >/dev/null || userdel mesos-gpu
