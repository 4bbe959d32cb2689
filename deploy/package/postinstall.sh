#!/bin/sh
# The first argument is configure for a .deb, and the number of installed versions
# for an .rpm.
set -e
case "$1" in
configure | [1-9]*) ;;
*) exit 0 ;;
esac
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers mesos-gpu.conf
elif ! getent passwd mesos-gpu >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/mesos-gpu/scheduler \
		--shell /usr/sbin/nologin --comment "mesos-gpu scheduler" mesos-gpu
fi
install -d -m 0755 /var/lib/mesos-gpu
install -d -m 0700 -o mesos-gpu -g mesos-gpu /var/lib/mesos-gpu/scheduler
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# Restart only running services; tasks keep running. A service that fails to
# start is retried by systemd and does not fail the installation.
systemctl try-restart mesos-gpu-scheduler.service mesos-gpu-agent.service mesos-gpu-local.service || true
