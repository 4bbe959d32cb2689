//go:build packages

package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/nvml/nvmltest"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/volumemgr"
)

const (
	schedulerUnit = "mesos-gpu-scheduler"
	agentUnit     = "mesos-gpu-agent"
	api           = "127.0.0.1:8080"
	metrics       = "127.0.0.1:9407"
	socket        = "/run/mesos-gpu/agent.sock"

	// Debian's rpm refuses to be the machine's package manager, and has its books
	// in a home folder, unless it is told otherwise.
	rpm      = "rpm --force-debian --dbpath " + rpmBooks
	rpmBooks = "/var/lib/rpm/"
)

// TestUnitsUnderSystemd goes through the units' life on a machine of their own:
// from an installation that is started as it is, to a purge that leaves nothing.
// Stand-ins are the driver and MPS, and `mesos-gpu local` for a Mesos cluster;
// the daemons, their sandboxes, systemd and the kernel are what they are.
func TestUnitsUnderSystemd(t *testing.T) {
	for _, layout := range layouts(t) {
		t.Run(layout, func(t *testing.T) {
			m := boot(t, layout)
			host := m.equip(t)
			before := m.files(t)
			m.install(t, os.Getenv("MESOS_GPU_PACKAGES"))
			m.asInstalled(t)
			m.cluster(t, host)
			m.sandboxes(t)
			m.confines(t, host)
			m.sharesByMPS(t, host)
			task := m.submits(t)
			m.upgrade(t, task)
			m.stopsInTime(t)
			m.removes(t, before)
		})
	}
}

// TestRPMUnderSystemd is that of the .rpm, as far as the packages differ. The
// machine is a Debian, whose rpm knows nothing of what dpkg has installed: what
// the package requires is not asked for.
func TestRPMUnderSystemd(t *testing.T) {
	m := boot(t, "v2")
	m.kind = "rpm"
	host := m.equip(t)
	m.run(t, "mkdir -p "+rpmBooks)
	before := m.files(t)
	m.install(t, os.Getenv("MESOS_GPU_PACKAGES"))
	m.asInstalled(t)
	m.cluster(t, host)
	m.upgrade(t, m.submits(t))
	m.stopsInTime(t)
	m.erases(t, before)
}

// equip puts into the machine what the packages do not bring: device nodes, the
// driver's libraries with what NVML reports of two GPUs, MPS, and what asks. What
// the kernel's module would show is mounted over /proc.
func (m machine) equip(t *testing.T) gpu.Host {
	t.Helper()
	m.impersonate(t, asker)
	m.impersonate(t, control)
	host, err := simulated.NewHost("2xV100", "under systemd")
	if err != nil {
		t.Fatal(err)
	}
	driver := t.TempDir()
	if err := volumemgr.WriteSimulatedDriver(driver, host.Driver); err != nil {
		t.Fatal(err)
	}
	output(t, "cp", "-r", filepath.Join(driver, "usr"), m.root)
	nvmltest.ReportHost(t, host)
	output(t, "cp", os.Getenv(nvmltest.StateVariable), filepath.Join(m.root, "etc/nvml"))
	output(t, "cp", nvmltest.BuildLibrary(t, t.TempDir()), filepath.Join(m.root, "usr/lib"))
	output(t, "cp", filepath.Join(driver, "proc/driver/nvidia/version"), filepath.Join(m.root, "etc/nvidia-version"))
	m.run(t, `mount -t tmpfs tmpfs /proc/driver; mkdir /proc/driver/nvidia; cp /etc/nvidia-version /proc/driver/nvidia/version
		sed '/^Block/i 195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n' /proc/devices | sed '/^$/d' >/etc/nvidia-devices; mount --bind /etc/nvidia-devices /proc/devices
		mknod -m 666 /dev/nvidia0 c 195 0; mknod -m 666 /dev/nvidia1 c 195 1; mknod -m 666 /dev/nvidiactl c 195 255; mknod -m 666 /dev/nvidia-uvm c 511 0`)
	return host
}

func (m machine) install(t *testing.T, dir string) {
	t.Helper()
	file := "/root/mesos-gpu." + m.kind
	output(t, "cp", thePackage(t, dir, runtime.GOARCH, m.kind), filepath.Join(m.root, file))
	m.run(t, map[string]string{"deb": "dpkg --force-confold --install ", "rpm": rpm + " --nodeps --upgrade "}[m.kind]+file+"; rm "+file)
}

// ask makes an HTTP request in the machine.
func (m machine) ask(t *testing.T, at, path, body string) string {
	t.Helper()
	return m.run(t, strings.Join([]string{asker, at, path, "'" + body + "'"}, " "))
}

func (m machine) says(t *testing.T, unit, words string) {
	t.Helper()
	m.eventually(t, unit+"'s journal says "+words, func() bool {
		return strings.Contains(m.run(t, "journalctl --no-pager -o cat -t "+unit), words)
	})
}

// asInstalled: nothing runs before it is started. With the configuration that
// comes the scheduler waits for a master and answers meanwhile; an agent's daemon
// that finds no NVML says so where people look, and is tried again.
func (m machine) asInstalled(t *testing.T) {
	t.Helper()
	for _, unit := range []string{schedulerUnit, agentUnit} {
		if state := m.property(t, unit, "UnitFileState") + " " + m.property(t, unit, "ActiveState"); state != "disabled inactive" {
			t.Errorf("%s is %s, want disabled inactive", unit, state)
		}
	}
	m.refusesToStart(t)
	m.run(t, "mv /usr/lib/libnvidia-ml.so.1 /root; systemctl enable --now "+schedulerUnit+" "+agentUnit)
	m.eventually(t, "the scheduler is in health", func() bool { return strings.Contains(m.ask(t, api, "/healthz", ""), `"role":"leader"`) })
	m.status(t, schedulerUnit, "leading; waiting for a master: ask for the leading master: ", ": connection refused")
	m.says(t, schedulerUnit, "no subscription to a master")
	m.status(t, agentUnit, "load libnvidia-ml.so.1: no NVIDIA driver")
	m.prioritizes(t)
	m.eventually(t, "the agent's daemon waits to be tried again", func() bool { return m.property(t, agentUnit, "SubState") == "auto-restart" })
	m.eventually(t, "it is tried again", func() bool { return m.property(t, agentUnit, "NRestarts") != "0" })
	m.run(t, "mv /root/libnvidia-ml.so.1 /usr/lib")
}

// refusesToStart: a start that comes to nothing is known to who asked for it, and
// the reason stands in the unit's status.
func (m machine) refusesToStart(t *testing.T) {
	t.Helper()
	m.run(t, "sed -i '$a no-such=flag' /etc/mesos-gpu/scheduler.conf")
	if out, err := m.command(t, "systemctl start "+schedulerUnit+" 2>&1").Output(); err == nil {
		t.Errorf("with an unknown flag the scheduler starts: %s", out)
	}
	m.status(t, schedulerUnit, "unknown flag: --no-such")
	m.run(t, "systemctl stop "+schedulerUnit+"; sed -i '$d' /etc/mesos-gpu/scheduler.conf")
}

// status waits until systemctl status shows the words.
func (m machine) status(t *testing.T, unit string, words ...string) {
	t.Helper()
	m.eventually(t, fmt.Sprintf("%s's status has %q", unit, words), func() bool {
		text := m.property(t, unit, "StatusText")
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
}

// prioritizes: in the journal what is wrong can be told from what is not.
func (m machine) prioritizes(t *testing.T) {
	t.Helper()
	for _, c := range []struct{ unit, priority, line string }{
		{schedulerUnit, "info", "journal read"}, {schedulerUnit, "warning", "no subscription to a master"}, {agentUnit, "err", "load libnvidia-ml.so.1"},
	} {
		lines := m.run(t, "journalctl --no-pager -o cat -t "+c.unit+" -p "+c.priority+".."+c.priority)
		if !strings.Contains(lines, c.line) || strings.Contains(lines, "<") {
			t.Errorf("%s's journal has %q elsewhere than at priority %s: %s", c.unit, c.line, c.priority, lines)
		}
	}
}

// cluster starts a Mesos cluster and the agent's daemon beside it, whose GPUs
// that agent is offered. Both daemons' files have each line switched on by now,
// which is to change nothing.
func (m machine) cluster(t *testing.T, host gpu.Host) {
	t.Helper()
	m.run(t, `systemd-run --quiet --collect --unit=cluster -p KillMode=process -p Delegate=yes -p ExecStopPost='/bin/rm -rf /root/cluster' \
		mesos-gpu local --gpus 1xK80 --listen 127.0.0.1:18080 --work-dir /root/cluster --log-level info
		mkdir -p /etc/systemd/system/mesos-gpu-agent.service.d
		printf '[Service]\nEnvironment=`+nvmltest.StateVariable+`=/etc/nvml\nBindReadOnlyPaths=/etc/nvidia-devices:/proc/devices\n' >/etc/systemd/system/mesos-gpu-agent.service.d/standin.conf
		sed -i 's/^#\([a-z-]*=\)/\1/' /etc/mesos-gpu/*.conf
		sed -i 's/^share=.*/share=1/; s/^share-limit=.*/share-limit=mps/' /etc/mesos-gpu/agent.conf
		systemctl daemon-reload; systemctl restart `+schedulerUnit+" "+agentUnit)
	m.status(t, agentUnit, "2 GPUs; 1 whole and 1 shared advertised to http://127.0.0.1:5051/slave(1)")
	m.status(t, schedulerUnit, "leading; subscribed to http://127.0.0.1:5050")
	m.run(t, "systemctl reload "+schedulerUnit)
	m.says(t, schedulerUnit, "neither a roles file nor an access file to read again")
	for _, d := range host.Devices {
		if devices := m.run(t, "mesos-gpu agent devices"); !strings.Contains(devices, d.UUID) {
			t.Errorf("the daemon lacks %s:\n%s", d.UUID, devices)
		}
	}
	if text := m.ask(t, metrics, "/metrics", ""); !strings.Contains(text, "mesos_gpu_offered") {
		t.Errorf("metrics: %s", text)
	}
	links := m.run(t, "find /var/lib/mesos-gpu/volumes -name 'libcuda.so.*.*' -links +1")
	if links == "" {
		t.Errorf("no driver volume, or a copy of the driver:\n%s", m.run(t, "find /var/lib/mesos-gpu/volumes; journalctl --no-pager -u "+agentUnit))
	}
}

// sandboxes: the kernel holds the daemons to what the units say.
func (m machine) sandboxes(t *testing.T) {
	t.Helper()
	for unit, want := range map[string]struct{ uid, capabilities string }{
		schedulerUnit: {m.run(t, "id -u mesos-gpu"), "0000000000000000"},
		agentUnit:     {"0\n", "00000080082000cf"},
	} {
		pid := m.property(t, unit, "MainPID")
		status := m.run(t, "cat /proc/"+pid+"/status")
		for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapBnd": want.capabilities, "Uid": strings.TrimSpace(want.uid)} {
			_, rest, _ := strings.Cut(status, "\n"+name+":\t")
			if got := strings.Fields(rest)[0]; got != want {
				t.Errorf("%s runs with %s %s, want %s", unit, name, got, want)
			}
		}
		for _, dir := range []string{"/etc", "/usr/bin", "/var/lib"} {
			if out, err := m.command(t, "nsenter -t "+pid+" -m touch "+dir+"/written 2>&1").Output(); err == nil || !strings.Contains(string(out), "Read-only") {
				t.Errorf("%s may write %s: %s", unit, dir, out)
			}
		}
	}
}

// confines: in its sandbox the daemon gives a container the volume and one GPU,
// and the kernel lets its processes open that GPU and not the other.
func (m machine) confines(t *testing.T, host gpu.Host) {
	t.Helper()
	group := map[string]string{"v1": "/sys/fs/cgroup/devices/mesos/c1", "v2": "/sys/fs/cgroup/mesos/c1"}[m.cgroups]
	setup := m.ask(t, socket, "/v1/prepare", `{"container":"c1","rootfs":true,"resources":[{"name":"gpus","scalar":1},{"name":"gpu_ids","set":["`+host.Devices[0].UUID+`"]}],"image":{"labels":{"com.nvidia.volumes.needed":"nvidia_driver"}}}`)
	if !strings.Contains(setup, `"path":"/dev/nvidia0"`) || !strings.Contains(setup, "/var/lib/mesos-gpu/volumes/") {
		t.Errorf("the container gets %s, want nvidia0 and the driver volume", setup)
	}
	out := m.run(t, `mkdir -p `+group+`
		sh -c 'until [ -e /root/go ]; do sleep 0.05; done; for n in 0 1; do true </dev/nvidia$n; done' 2>/root/opened & pid=$!
		echo $pid >`+group+`/cgroup.procs
		ask `+socket+` /v1/isolate '{"container":"c1","pid":'$pid'}' >/dev/null
		touch /root/go; wait $pid || true
		cat /root/opened; rm /root/go /root/opened`)
	if !strings.Contains(out, "nvidia0: No such device or address") || !strings.Contains(out, "nvidia1: Operation not permitted") {
		t.Errorf("want nvidia0 to be tried and nvidia1 to be denied: %s", out)
	}
	m.run(t, "rmdir "+group)
	m.ask(t, socket, "/v1/cleanup", `{"container":"c1"}`)
}

// sharesByMPS: NVIDIA's program can do its work inside the unit, and serves on
// while the daemon restarts.
func (m machine) sharesByMPS(t *testing.T, host gpu.Host) {
	t.Helper()
	part := `{"container":"c2","resources":[{"name":"gpu_mem.` + host.Devices[1].UUID + `","scalar":1024}]}`
	m.ask(t, socket, "/v1/prepare", part)
	const server = control + " -f"
	before := m.processes(t, server)
	m.run(t, "systemctl restart "+agentUnit)
	m.says(t, agentUnit, "MPS control daemon taken over")
	if now := m.processes(t, server); len(before) != 1 || !slices.Equal(now, before) {
		t.Errorf("after the restart MPS is %q, before it was %q", now, before)
	}
	m.ask(t, socket, "/v1/cleanup", `{"container":"c2"}`)
	if now := m.processes(t, server); len(now) > 0 {
		t.Errorf("with no container left MPS runs on: %q", now)
	}
}

// submits has a task run that outlives what comes.
func (m machine) submits(t *testing.T) (processes []string) {
	t.Helper()
	m.run(t, `printf 'name: sleeper\ngpus: 1\ncpus: 0.1\nmem: 32MiB\ncommand: sleep 600\n' >/root/job.yaml; mesos-gpu submit /root/job.yaml; rm /root/job.yaml`)
	m.eventually(t, "the task runs", func() bool { return strings.Contains(m.describe(t), "RUNNING") })
	return m.task(t)
}

// task are the processes of what was submitted.
func (m machine) task(t *testing.T) []string {
	t.Helper()
	return append(m.processes(t, "sleep 600"), m.processes(t, "mesos-gpu executor")...)
}

func (m machine) describe(t *testing.T) string { return m.run(t, "mesos-gpu describe sleeper") }

// upgrade: the new version runs, under the configuration that was changed, and
// the task and its executor are the processes that they were.
func (m machine) upgrade(t *testing.T, processes []string) {
	t.Helper()
	before := map[string]string{schedulerUnit: m.property(t, schedulerUnit, "MainPID"), agentUnit: m.property(t, agentUnit, "MainPID")}
	m.install(t, filepath.Join(os.Getenv("MESOS_GPU_PACKAGES"), "next"))
	for unit, pid := range before {
		now := m.property(t, unit, "MainPID")
		if program := m.run(t, "readlink /proc/"+now+"/exe"); now == pid || program != "/usr/bin/mesos-gpu\n" {
			t.Errorf("after the upgrade %s is process %s of %s, before it was %s", unit, now, program, pid)
		}
	}
	if got := m.run(t, "mesos-gpu version"); got != "mesos-gpu v0.0.2\n" {
		t.Errorf("after the upgrade: %s", got)
	}
	m.eventually(t, "the new scheduler has a master", func() bool { return strings.Contains(m.ask(t, api, "/healthz", ""), `"connected":true`) })
	if now := m.task(t); !slices.Equal(now, processes) {
		t.Errorf("after the upgrade the task's processes are %q, before it they were %q", now, processes)
	}
	if text := m.describe(t); !strings.Contains(text, "RUNNING") {
		t.Errorf("after the upgrade: %s", text)
	}
	m.run(t, "mesos-gpu kill sleeper")
	m.eventually(t, "the task's end is known", func() bool { return strings.Contains(m.describe(t), "KILLED") })
}

// stopsInTime: both daemons obey; systemd kills neither.
func (m machine) stopsInTime(t *testing.T) {
	t.Helper()
	for _, unit := range []string{schedulerUnit, agentUnit} {
		begun := time.Now()
		m.run(t, "systemctl stop "+unit)
		if took, result := time.Since(begun), m.property(t, unit, "Result"); took > 10*time.Second || result != "success" {
			t.Errorf("%s stops in %s: %s, want success in 10 s", unit, took, result)
		}
	}
	m.run(t, "systemctl start "+schedulerUnit+" "+agentUnit)
}

// removes: a removal ends both daemons and keeps what they keep, a purge takes
// that as well.
func (m machine) removes(t *testing.T, before []string) {
	t.Helper()
	m.run(t, "dpkg --remove mesos-gpu")
	m.keeps(t, "/etc/mesos-gpu/agent.conf")
	m.run(t, "dpkg --purge mesos-gpu")
	m.isAsBefore(t, before)
}

// erases is removes of an .rpm, which has no purge: docs/guides/operations.md says what
// takes the rest.
func (m machine) erases(t *testing.T, before []string) {
	t.Helper()
	m.run(t, rpm+" --erase mesos-gpu")
	m.keeps(t, "/etc/mesos-gpu/agent.conf.rpmsave")
	const rest = "rm -rf /etc/mesos-gpu /var/lib/mesos-gpu /run/mesos-gpu /dev/shm/mesos-gpu-mps; userdel mesos-gpu"
	if !strings.Contains(read(t, "../docs/guides/operations.md"), "\n`"+rest+"`") {
		t.Errorf("docs/guides/operations.md does not say: %s", rest)
	}
	m.run(t, rest)
	m.isAsBefore(t, before)
}

// keeps: of a package that was removed nothing runs, and the daemons' own files
// are there, with the configuration. The cluster ends too.
func (m machine) keeps(t *testing.T, configuration string) {
	t.Helper()
	if units := m.run(t, "systemctl list-units --all --no-legend 'mesos-gpu*'"); units != "" {
		t.Errorf("removed, there is still: %s", units)
	}
	if daemons := append(m.processes(t, "mesos-gpu scheduler"), m.processes(t, "mesos-gpu agent")...); len(daemons) > 0 {
		t.Errorf("removed, there is still: %q", daemons)
	}
	m.run(t, "ls "+configuration+" /var/lib/mesos-gpu/scheduler/journal.db /var/lib/mesos-gpu/agent; ! ls /usr/bin/mesos-gpu")
	m.run(t, "systemctl stop cluster; rm -r /etc/systemd/system/mesos-gpu-agent.service.d")
}

func (m machine) isAsBefore(t *testing.T, before []string) {
	t.Helper()
	if got := left(before, m.files(t)); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
	if got := m.run(t, "getent passwd mesos-gpu || echo none"); got != "none\n" {
		t.Errorf("left behind: user %s", got)
	}
}
