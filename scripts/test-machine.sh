# test-machine.sh, to be sourced: prepare_machine installs the programs that the
# tests use, and starts a Docker engine for the run if none responds. It needs root
# on Debian; elsewhere it only says so, and tests report what is missing.
packages=(docker.io iptables runc podman netavark busybox-static containernetworking-plugins make gcc g++ libc6-dev libcurl4-openssl-dev nlohmann-json3-dev zookeeper default-jre-headless libslf4j-java xfsprogs chromium-headless-shell curl haproxy)
engine=""

install_missing() {
	local missing=()
	for p in "${packages[@]}"; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
	done
	((${#missing[@]})) || return 0
	echo "installing ${missing[*]} and what they depend on, for the tests"
	apt-get -qq update
	# prints apt-get's estimate of the download and of the disk space
	LC_ALL=C apt-get install --assume-no --no-install-recommends "${missing[@]}" | grep -E '^(Need to get|After this)' || true
	DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
}

engine_answers() { curl -sf --max-time 3 --unix-socket /var/run/docker.sock http://docker/_ping >/dev/null; }

# The engine's iptables chains and bridge remain. Only its processes are stopped
# here.
start_engine() {
	state=$(mktemp -d)
	setsid dockerd --pidfile "$state/pid" >"$state/log" 2>&1 &
	engine=$!
	for _ in $(seq 120); do
		engine_answers && return 0
		kill -0 "$engine" 2>/dev/null || break
		sleep 0.5
	done
	echo "the Docker engine does not start:" >&2
	tail -5 "$state/log" >&2
	return 1
}

stop_engine() {
	[ -n "$engine" ] || return 0
	kill "$engine" 2>/dev/null || true
	wait "$engine" 2>/dev/null || true
	rm -rf "$state"
}
trap stop_engine EXIT

prepare_machine() {
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		install_missing
		scripts/package-tools.sh
		engine_answers || start_engine
		export MESOS_GPU_TEST_ALL=1
	else
		echo "not root on Debian: tests that need root, docker.io, runc, busybox-static or zookeeper are skipped, and each reports what is missing"
	fi
}
