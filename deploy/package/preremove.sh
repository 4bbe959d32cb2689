#!/bin/sh
# Stops the services when the last version is removed: dpkg passes remove, rpm 0.
# An upgrade does not stop them.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl --no-reload disable --now mesos-gpu-scheduler.service mesos-gpu-agent.service mesos-gpu-local.service
