package oci

import (
	"fmt"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// defaultMounts returns the mounts of every container.
func defaultMounts(shmMiB uint32) []specs.Mount {
	shm := []string{"nosuid", "noexec", "nodev", "mode=1777"}
	if shmMiB > 0 {
		shm = append(shm, fmt.Sprintf("size=%dm", shmMiB))
	}
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: shm},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
}

func bindMounts(list []BindMount) []specs.Mount {
	var out []specs.Mount
	for _, b := range list {
		options := []string{"rbind", "rprivate", "rw"}
		if b.ReadOnly {
			options[2] = "ro"
		}
		out = append(out, specs.Mount{Destination: b.Path, Type: "bind", Source: b.Host, Options: options})
	}
	return out
}

func maskedPaths() []string {
	return []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
}

func readOnly() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}
