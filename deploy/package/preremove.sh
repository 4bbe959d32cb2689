#!/bin/sh
# The last version is removed: a .deb passes remove, an .rpm 0. An upgrade stops
# nothing.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl --no-reload disable --now mesos-gpu-scheduler.service mesos-gpu-agent.service
