#!/bin/sh
# A stand-in for nvidia-smi on machines without a driver. It lists the GPU
# nodes that this process may open. No driver serves them, so that opening one
# fails with "No such device or address" where the device cgroup lets it
# through, and with "Operation not permitted" where it does not.
LC_ALL=C
export LC_ALL
echo "NVIDIA-SMI VERSION  Driver Version: VERSION  SIMULATED"
count=0
for node in "${MESOS_GPU_DEV:-/dev}"/nvidia[0-9]*; do
	[ -c "$node" ] || continue
	if answer=$( (: <>"$node") 2>&1); then
		answer="No such device"
	fi
	case $answer in
	*"No such device"*)
		echo "GPU $count: SIMULATED ${node##*/}"
		count=$((count + 1))
		;;
	esac
done
if [ "$count" -eq 0 ]; then
	echo "No devices were found"
	exit 6
fi
