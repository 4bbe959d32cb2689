#!/bin/sh
# Removing keeps what the daemons keep; only a .deb's purge takes it away.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
[ "$1" = purge ] || exit 0
rm -rf /etc/mesos-gpu /run/mesos-gpu /var/lib/mesos-gpu/scheduler /var/lib/mesos-gpu/agent
# A container that has the driver volume mounted would lose its libraries.
if grep -qs '/volumes/nvidia_' /proc/[0-9]*/mountinfo; then
	echo "mesos-gpu: containers use /var/lib/mesos-gpu/volumes, which stays: remove it when they have ended" >&2
else
	rm -rf /var/lib/mesos-gpu
fi
! getent passwd mesos-gpu >/dev/null || userdel mesos-gpu
