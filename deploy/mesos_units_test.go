//go:build packages

package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mesosUnits is a script that creates the units of Apache Mesos as docs/guides/operations.md
// describes them. It unmounts cgroup v2 for the Mesos agent, which rejects it next to version
// 1. The GPUs are simulated, with real device nodes.
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

// TestUnitsBesideApacheMesos runs the sandboxed daemons with a real Mesos agent that loads the
// module. A task can open only its own GPU, and survives a restart of the agent and an upgrade
// of the package. MESOS_PREFIX names an Apache Mesos that was built on this machine, because
// its libraries are copied.
func TestUnitsBesideApacheMesos(t *testing.T) {
	prefix := os.Getenv("MESOS_PREFIX")
	if prefix == "" || !slices.Contains(availableCgroupVersions(t), "v1") {
		t.Skip("needs an Apache Mesos under MESOS_PREFIX, and cgroup v1")
	}
	m := bootMachine(t, "v1")
	m.copyMesos(t, prefix)
	m.installPackage(t, os.Getenv("MESOS_GPU_PACKAGES"))
	m.run(t, strings.ReplaceAll(mesosUnits, "PREFIX", prefix))
	m.awaitJournal(t, agentUnit, "GPUs advertised")
	m.run(t,
		`printf 'name: sleeper\ngpus: 1\ncpus: 0.1\nmem: 32MiB\ncommand: "for n in 0 1; do true </dev/nvidia$n; done; sleep 600"\n' >/root/job.yaml; mesos-gpu submit /root/job.yaml`)
	m.awaitCondition(t, "one GPU opens and the other does not", func() bool {
		out, _ := m.newCommand(t, "mesos-gpu logs --stderr sleeper").Output()
		return strings.Count(string(out), ": No such device or address") == 1 && strings.Count(string(out), ": Operation not permitted") == 1
	})
	processes := m.taskProcesses(t)
	m.run(t, "systemctl restart mesos-agent")
	m.awaitCondition(t, "the GPUs are offered again", func() bool {
		return strings.Count(m.run(t, "journalctl --no-pager -o cat -t "+agentUnit), `msg="GPUs advertised"`) == 2
	})
	m.checkUpgrade(t, processes)
	m.checkStopTime(t)
}

// copyMesos copies an Apache Mesos, the module that make module built, and libraries that a
// minimal Debian lacks.
func (m machine) copyMesos(t *testing.T, prefix string) {
	t.Helper()
	top := filepath.Join(m.root, prefix)
	runProgram(t, "mkdir", "-p", top)
	for _, dir := range []string{"sbin", "lib", "libexec", "share"} {
		runProgram(t, "cp", "-r", filepath.Join(prefix, dir), top)
	}
	runProgram(t, "cp", "../bin/libmesosgpumodule.so", filepath.Join(top, "lib"))
	for line := range strings.Lines(runProgram(t, "ldd", filepath.Join(prefix, "sbin/mesos-agent"), "../bin/libmesosgpumodule.so")) {
		_, path, _ := strings.Cut(line, "=> /")
		path, _, _ = strings.Cut("/"+path, " (")
		if _, err := os.Stat(filepath.Join(m.root, path)); err != nil {
			runProgram(t, "cp", "-L", path, filepath.Join(top, "lib"))
		}
	}
	m.installTestBinary(t, requestProgram)
	m.run(t, "echo "+prefix+"/lib >/etc/ld.so.conf.d/mesos.conf; ldconfig")
}
