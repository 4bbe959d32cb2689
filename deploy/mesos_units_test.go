//go:build packages

package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mesosUnits are those of an Apache Mesos, as docs/guides/operations.md wants them. What
// hides cgroup v2 is for Mesos, which refuses it beside version 1; the GPUs are
// made up, their nodes are not.
const mesosUnits = `
cat >/etc/mesos-gpu/modules.json <<'END'
{"libraries":[{"file":"PREFIX/lib/libmesosgpumodule.so","modules":[{"name":"io_mesosgpu_GpuIsolator"}]}]}
END
cat >/etc/systemd/system/mesos-master.service <<'END'
[Service]
ExecStart=PREFIX/sbin/mesos-master --ip=127.0.0.1 --hostname=127.0.0.1 --work_dir=/var/lib/mesos-master --registry=in_memory --allocation_interval=200ms
END
cat >/etc/systemd/system/mesos-agent.service <<'END'
[Service]
KillMode=process
Delegate=yes
Restart=always
ExecStart=/usr/bin/unshare --mount sh -c 'umount /sys/fs/cgroup/unified; exec PREFIX/sbin/mesos-agent --ip=127.0.0.1 --hostname=127.0.0.1 --master=127.0.0.1:5050 \
  --work_dir=/var/lib/mesos --containerizers=mesos --launcher=linux --no-systemd_enable_support --modules=file:///etc/mesos-gpu/modules.json \
  --isolation=cgroups/devices,filesystem/linux,docker/runtime,io_mesosgpu_GpuIsolator $(mesos-gpu agent flags --simulate 2xV100)'
END
for n in 0 1; do mknod -m 666 /dev/nvidia$n c 195 $n; done
sed -i 's/^#simulate=.*/simulate=2xV100/' /etc/mesos-gpu/agent.conf
systemctl daemon-reload
systemctl start mesos-gpu-agent mesos-gpu-scheduler mesos-master mesos-agent`

// TestUnitsBesideApacheMesos: beside a real agent and its module the daemon in its
// sandbox confines a task to its GPU, and the task outlives the agent's restart
// and the package's upgrade. MESOS_PREFIX names that Mesos; it has to be of this
// machine, whose libraries it gets.
func TestUnitsBesideApacheMesos(t *testing.T) {
	prefix := os.Getenv("MESOS_PREFIX")
	if prefix == "" || !slices.Contains(layouts(t), "v1") {
		t.Skip("needs an Apache Mesos under MESOS_PREFIX, and cgroup v1")
	}
	m := boot(t, "v1")
	m.bring(t, prefix)
	m.install(t, os.Getenv("MESOS_GPU_PACKAGES"))
	m.run(t, strings.ReplaceAll(mesosUnits, "PREFIX", prefix))
	m.says(t, agentUnit, "GPUs advertised")
	m.run(t, `printf 'name: sleeper\ngpus: 1\ncpus: 0.1\nmem: 32MiB\ncommand: "for n in 0 1; do true </dev/nvidia$n; done; sleep 600"\n' >/root/job.yaml; mesos-gpu submit /root/job.yaml`)
	m.eventually(t, "one GPU opens and the other does not", func() bool {
		out, _ := m.command(t, "mesos-gpu logs --stderr sleeper").Output()
		return strings.Count(string(out), ": No such device or address") == 1 && strings.Count(string(out), ": Operation not permitted") == 1
	})
	processes := m.task(t)
	m.run(t, "systemctl restart mesos-agent")
	m.eventually(t, "the GPUs are offered again", func() bool {
		return strings.Count(m.run(t, "journalctl --no-pager -o cat -t "+agentUnit), `msg="GPUs advertised"`) == 2
	})
	m.upgrade(t, processes)
	m.stopsInTime(t)
}

// bring copies a Mesos, the module for it as make module leaves it, and the
// libraries that a bare Debian lacks.
func (m machine) bring(t *testing.T, prefix string) {
	t.Helper()
	top := filepath.Join(m.root, prefix)
	output(t, "mkdir", "-p", top)
	for _, dir := range []string{"sbin", "lib", "libexec", "share", "etc"} {
		output(t, "cp", "-r", filepath.Join(prefix, dir), top)
	}
	output(t, "cp", "../bin/libmesosgpumodule.so", filepath.Join(top, "lib"))
	for line := range strings.Lines(output(t, "ldd", filepath.Join(prefix, "sbin/mesos-agent"), "../bin/libmesosgpumodule.so")) {
		_, path, _ := strings.Cut(line, "=> /")
		path, _, _ = strings.Cut("/"+path, " (")
		if _, err := os.Stat(filepath.Join(m.root, path)); err != nil {
			output(t, "cp", "-L", path, filepath.Join(top, "lib"))
		}
	}
	m.impersonate(t, asker)
	m.run(t, "echo "+prefix+"/lib >/etc/ld.so.conf.d/mesos.conf; ldconfig")
}
