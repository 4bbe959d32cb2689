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
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/volumemgr"
)

const (
	schedulerUnit = "mesos-gpu-scheduler"
	agentUnit     = "mesos-gpu-agent"
	api           = "127.0.0.1:8080"
	metrics       = "127.0.0.1:9407"
	socket        = "/run/mesos-gpu/agent.sock"

	// Debian's rpm must be forced to be the package manager. By default its database is in a
	// home folder.
	rpm         = "rpm --force-debian --dbpath " + rpmDatabase
	rpmDatabase = "/var/lib/rpm/"
)

// TestUnitsUnderSystemd runs the packages' units on a machine with systemd, from a fresh
// installation to a purge that leaves no files. The driver and MPS are fakes, and `mesos-gpu
// local` is the Mesos cluster. The daemons, their sandboxes, systemd and the kernel are real.
func TestUnitsUnderSystemd(t *testing.T) {
	for _, layout := range availableCgroupVersions(t) {
		t.Run(layout, func(t *testing.T) {
			m := bootMachine(t, layout)
			host := m.installStandIns(t)
			before := m.listFiles(t)
			m.installPackage(t, os.Getenv("MESOS_GPU_PACKAGES"))
			m.checkFreshInstallation(t)
			m.startCluster(t, host)
			m.checkSandboxes(t)
			m.checkDeviceIsolation(t, host)
			m.checkMPS(t, host)
			task := m.submitTask(t)
			m.checkUpgrade(t, task)
			m.checkStopTime(t)
			m.checkDebRemoval(t, before)
		})
	}
}

// TestRPMUnderSystemd runs the steps in which the .rpm differs from the .deb. The machine is a
// Debian, whose rpm does not know the installed packages, so dependencies are not checked.
func TestRPMUnderSystemd(t *testing.T) {
	m := bootMachine(t, "v2")
	m.kind = "rpm"
	host := m.installStandIns(t)
	m.run(t, "mkdir -p "+rpmDatabase)
	before := m.listFiles(t)
	m.installPackage(t, os.Getenv("MESOS_GPU_PACKAGES"))
	m.checkFreshInstallation(t)
	m.startCluster(t, host)
	m.checkUpgrade(t, m.submitTask(t))
	m.checkStopTime(t)
	m.checkRPMRemoval(t, before)
}

// installStandIns installs what the packages do not contain: device nodes, the driver's
// libraries with a fake NVML that reports two GPUs, a fake MPS and the program for requests.
// The files of the kernel module are mounted over /proc.
func (m machine) installStandIns(t *testing.T) gpu.Host {
	t.Helper()
	m.installTestBinary(t, requestProgram)
	m.installTestBinary(t, mpsControlProgram)
	host, err := simulated.NewHost("2xV100", "under systemd")
	if err != nil {
		t.Fatal(err)
	}
	driver := t.TempDir()
	if err := volumemgr.WriteSimulatedDriver(driver, host.Driver); err != nil {
		t.Fatal(err)
	}
	runProgram(t, "cp", "-r", filepath.Join(driver, "usr"), m.root)
	nvmltest.ReportHost(t, host)
	runProgram(t, "cp", os.Getenv(nvmltest.StateVariable), filepath.Join(m.root, "etc/nvml"))
	runProgram(t, "cp", nvmltest.BuildLibrary(t, t.TempDir()), filepath.Join(m.root, "usr/lib"))
	runProgram(t, "cp", filepath.Join(driver, "proc/driver/nvidia/version"), filepath.Join(m.root, "etc/nvidia-version"))
	m.addDevices(t)
	return host
}

// addDevices creates the nodes and the files of the kernel that a reboot removes.
func (m machine) addDevices(t *testing.T) {
	t.Helper()
	m.run(t, `mount -t tmpfs tmpfs /proc/driver; mkdir /proc/driver/nvidia; cp /etc/nvidia-version /proc/driver/nvidia/version
		sed '/^Block/i 195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n' /proc/devices | sed '/^$/d' >/etc/nvidia-devices; mount --bind /etc/nvidia-devices /proc/devices
		mknod -m 666 /dev/nvidia0 c 195 0; mknod -m 666 /dev/nvidia1 c 195 1; mknod -m 666 /dev/nvidiactl c 195 255; mknod -m 666 /dev/nvidia-uvm c 511 0`)
}

func (m machine) installPackage(t *testing.T, dir string) {
	t.Helper()
	file := "/root/mesos-gpu." + m.kind
	runProgram(t, "cp", findPackage(t, dir, runtime.GOARCH, m.kind), filepath.Join(m.root, file))
	m.run(t, map[string]string{"deb": "dpkg --force-confold --install ", "rpm": rpm + " --nodeps --upgrade "}[m.kind]+file+"; rm "+file)
}

// sendRequest sends an HTTP request from inside the machine and returns the body.
func (m machine) sendRequest(t *testing.T, at, path, body string) string {
	t.Helper()
	return m.run(t, strings.Join([]string{requestProgram, at, path, "'" + body + "'"}, " "))
}

// awaitJournal waits until the journal of a unit contains words.
func (m machine) awaitJournal(t *testing.T, unit, words string) {
	t.Helper()
	m.awaitCondition(t, unit+"'s journal says "+words, func() bool {
		return strings.Contains(m.run(t, "journalctl --no-pager -o cat -t "+unit), words)
	})
}

// checkFreshInstallation checks that the packages start nothing. With the packaged
// configuration the scheduler serves its API while it waits for a master. The agent's daemon
// reports in its status that it finds no NVML, and systemd restarts it.
func (m machine) checkFreshInstallation(t *testing.T) {
	t.Helper()
	for _, unit := range []string{schedulerUnit, agentUnit} {
		if state := m.unitProperty(t, unit, "UnitFileState") + " " + m.unitProperty(t, unit, "ActiveState"); state != "disabled inactive" {
			t.Errorf("%s is %s, want disabled inactive", unit, state)
		}
	}
	m.checkFailedStart(t)
	m.run(t, "mv /usr/lib/libnvidia-ml.so.1 /root; systemctl enable --now "+schedulerUnit+" "+agentUnit)
	m.awaitCondition(t, "the scheduler leads", func() bool { return strings.Contains(m.sendRequest(t, api, "/healthz", ""), `"role":"leader"`) })
	m.awaitStatus(t, schedulerUnit, "leading; waiting for a master: ask for the leading master: ", ": connection refused")
	m.awaitJournal(t, schedulerUnit, "no subscription to a master")
	m.awaitStatus(t, agentUnit, "load libnvidia-ml.so.1: no NVIDIA driver")
	m.checkJournalPriorities(t)
	m.awaitCondition(t, "the agent's daemon waits to be tried again", func() bool { return m.unitProperty(t, agentUnit, "SubState") == "auto-restart" })
	m.awaitCondition(t, "it is tried again", func() bool { return m.unitProperty(t, agentUnit, "NRestarts") != "0" })
	m.run(t, "mv /root/libnvidia-ml.so.1 /usr/lib")
}

// checkFailedStart checks that systemctl start fails for an invalid configuration, and that
// the unit's status contains the reason.
func (m machine) checkFailedStart(t *testing.T) {
	t.Helper()
	m.run(t, "sed -i '$a no-such=flag' /etc/mesos-gpu/scheduler.conf")
	if out, err := m.newCommand(t, "systemctl start "+schedulerUnit+" 2>&1").Output(); err == nil {
		t.Errorf("with an unknown flag the scheduler starts: %s", out)
	}
	m.awaitStatus(t, schedulerUnit, "unknown flag: --no-such")
	m.run(t, "systemctl stop "+schedulerUnit+"; sed -i '$d' /etc/mesos-gpu/scheduler.conf")
}

// awaitStatus waits until the status text of a unit contains all words.
func (m machine) awaitStatus(t *testing.T, unit string, words ...string) {
	t.Helper()
	m.awaitCondition(t, fmt.Sprintf("%s's status has %q", unit, words), func() bool {
		text := m.unitProperty(t, unit, "StatusText")
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
}

// checkJournalPriorities checks that log lines have the journal priority of their level.
func (m machine) checkJournalPriorities(t *testing.T) {
	t.Helper()
	for _, c := range []struct{ unit, priority, line string }{
		{schedulerUnit, "info", "journal read"}, {schedulerUnit, "warning", "no subscription to a master"}, {agentUnit, "err", "load libnvidia-ml.so.1"},
	} {
		lines := m.run(t, "journalctl --no-pager -o cat -t "+c.unit+" -p "+c.priority+".."+c.priority)
		if !strings.Contains(lines, c.line) || strings.Contains(lines, "<") {
			t.Errorf("%s: %q is not in the journal at priority %s: %s", c.unit, c.line, c.priority, lines)
		}
	}
}

// startCluster starts a Mesos cluster and connects both daemons to it. It uncomments each line
// of their configuration, which shows the defaults and must change nothing.
func (m machine) startCluster(t *testing.T, host gpu.Host) {
	t.Helper()
	m.run(t, `systemd-run --quiet --collect --unit=cluster -p KillMode=process -p Delegate=yes -p ExecStopPost='/bin/rm -rf /var/lib/cluster' \
		mesos-gpu local --gpus 1xK80 --listen 127.0.0.1:18080 --work-dir /var/lib/cluster --process-user= --log-level info
		mkdir -p /etc/systemd/system/mesos-gpu-agent.service.d
		printf '[Service]\nEnvironment=`+nvmltest.StateVariable+
		`=/etc/nvml\nBindReadOnlyPaths=/etc/nvidia-devices:/proc/devices\n' >/etc/systemd/system/mesos-gpu-agent.service.d/standin.conf
		sed -i 's/^#\([a-z-]*=\)/\1/' /etc/mesos-gpu/*.conf
		sed -i 's/^share=.*/share=1/; s/^share-limit=.*/share-limit=mps/' /etc/mesos-gpu/agent.conf
		systemctl daemon-reload; systemctl restart `+schedulerUnit+" "+agentUnit)
	m.awaitStatus(t, agentUnit, "2 GPUs; 1 whole and 1 shared advertised to http://127.0.0.1:5051/slave(1)")
	m.awaitStatus(t, schedulerUnit, "leading; subscribed to http://127.0.0.1:5050")
	m.run(t, "systemctl reload "+schedulerUnit)
	m.awaitJournal(t, schedulerUnit, "neither a roles file nor an access file nor a file of notifications to read again")
	for _, d := range host.Devices {
		if devices := m.run(t, "mesos-gpu agent devices"); !strings.Contains(devices, d.UUID) {
			t.Errorf("the daemon lacks %s:\n%s", d.UUID, devices)
		}
	}
	if text := m.sendRequest(t, metrics, "/metrics", ""); !strings.Contains(text, "mesos_gpu_offered") {
		t.Errorf("metrics: %s", text)
	}
	links := m.run(t, "find /var/lib/mesos-gpu/volumes -name 'libcuda.so.*.*' -links +1")
	if links == "" {
		t.Errorf("no driver volume, or a copy of the driver:\n%s", m.run(t, "find /var/lib/mesos-gpu/volumes; journalctl --no-pager -u "+agentUnit))
	}
}

// checkSandboxes checks that the kernel enforces the restrictions in the units.
func (m machine) checkSandboxes(t *testing.T) {
	t.Helper()
	for unit, want := range map[string]struct{ uid, capabilities string }{
		schedulerUnit: {m.run(t, "id -u mesos-gpu"), "0000000000000000"},
		agentUnit:     {"0\n", "00000080082000cf"},
	} {
		pid := m.unitProperty(t, unit, "MainPID")
		status := m.run(t, "cat /proc/"+pid+"/status")
		for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapBnd": want.capabilities, "Uid": strings.TrimSpace(want.uid)} {
			_, rest, _ := strings.Cut(status, "\n"+name+":\t")
			if got := strings.Fields(rest)[0]; got != want {
				t.Errorf("%s runs with %s %s, want %s", unit, name, got, want)
			}
		}
		for _, dir := range []string{"/etc", "/usr/bin", "/var/lib"} {
			if out, err := m.newCommand(t, "nsenter -t "+pid+" -m touch "+dir+"/written 2>&1").Output(); err == nil || !strings.Contains(string(out), "Read-only") {
				t.Errorf("%s may write %s: %s", unit, dir, out)
			}
		}
	}
}

// checkDeviceIsolation checks that the sandboxed daemon gives a container the driver volume
// and one GPU, and that its processes can open only that GPU.
func (m machine) checkDeviceIsolation(t *testing.T, host gpu.Host) {
	t.Helper()
	group := map[string]string{"v1": "/sys/fs/cgroup/devices/mesos/c1", "v2": "/sys/fs/cgroup/mesos/c1"}[m.cgroups]
	setup := m.sendRequest(t, socket, "/v1/prepare", `{"container":"c1","rootfs":true,"resources":[{"name":"gpus","scalar":1},{"name":"gpu_ids","set":["`+
		host.Devices[0].UUID+`"]}],"image":{"labels":{"com.nvidia.volumes.needed":"nvidia_driver"}}}`)
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
	m.sendRequest(t, socket, "/v1/cleanup", `{"container":"c1"}`)
}

// checkMPS checks that an MPS control daemon works inside the unit's sandbox and keeps running
// while the daemon restarts.
func (m machine) checkMPS(t *testing.T, host gpu.Host) {
	t.Helper()
	part := `{"container":"c2","resources":[{"name":"gpu_mem.` + host.Devices[1].UUID + `","scalar":1024}]}`
	m.sendRequest(t, socket, "/v1/prepare", part)
	const server = mpsControlProgram + " -f"
	before := m.listProcesses(t, server)
	m.run(t, "systemctl restart "+agentUnit)
	m.awaitJournal(t, agentUnit, "MPS control daemon taken over")
	if now := m.listProcesses(t, server); len(before) != 1 || !slices.Equal(now, before) {
		t.Errorf("after the restart MPS is %q, want %q as before", now, before)
	}
	m.sendRequest(t, socket, "/v1/cleanup", `{"container":"c2"}`)
	if now := m.listProcesses(t, server); len(now) > 0 {
		t.Errorf("MPS runs although no container uses it: %q", now)
	}
}

// submitTask submits a long-running job, waits until its task runs and returns the task's
// processes.
func (m machine) submitTask(t *testing.T) (processes []string) {
	t.Helper()
	m.run(t,
		`printf 'name: sleeper\ngpus: 1\ncpus: 0.1\nmem: 32MiB\ncommand: sleep 600\n' >/root/job.yaml; mesos-gpu submit /root/job.yaml; rm /root/job.yaml; mesos-gpu wait --for running --timeout 3m sleeper`)
	return m.taskProcesses(t)
}

// taskProcesses returns the processes of the submitted task and its executor.
func (m machine) taskProcesses(t *testing.T) []string {
	t.Helper()
	return append(m.listProcesses(t, "sleep 600"), m.listProcesses(t, "mesos-gpu executor")...)
}

func (m machine) describeJob(t *testing.T) string { return m.run(t, "mesos-gpu describe sleeper") }

// checkUpgrade installs the next version. Both daemons must restart with the new binary and
// the changed configuration, and the task and its executor must keep running.
func (m machine) checkUpgrade(t *testing.T, processes []string) {
	t.Helper()
	before := map[string]string{schedulerUnit: m.unitProperty(t, schedulerUnit, "MainPID"), agentUnit: m.unitProperty(t, agentUnit, "MainPID")}
	m.installPackage(t, filepath.Join(os.Getenv("MESOS_GPU_PACKAGES"), "next"))
	for unit, pid := range before {
		now := m.unitProperty(t, unit, "MainPID")
		if program := m.run(t, "readlink /proc/"+now+"/exe"); now == pid || program != "/usr/bin/mesos-gpu\n" {
			t.Errorf("after the upgrade %s is process %s of %s, before it was %s", unit, now, program, pid)
		}
	}
	if got := m.run(t, "mesos-gpu version | head -n 1"); got != "mesos-gpu v0.0.2\n" {
		t.Errorf("after the upgrade: %s", got)
	}
	m.awaitCondition(t, "the new scheduler has a master", func() bool { return strings.Contains(m.sendRequest(t, api, "/healthz", ""), `"connected":true`) })
	if now := m.taskProcesses(t); !slices.Equal(now, processes) {
		t.Errorf("after the upgrade the task's processes are %q, before it they were %q", now, processes)
	}
	if text := m.describeJob(t); !strings.Contains(text, "RUNNING") {
		t.Errorf("after the upgrade: %s", text)
	}
	m.run(t, "mesos-gpu kill sleeper")
	m.awaitCondition(t, "the task is KILLED", func() bool { return strings.Contains(m.describeJob(t), "KILLED") })
}

// checkStopTime checks that both daemons stop on SIGTERM, before systemd kills them.
func (m machine) checkStopTime(t *testing.T) {
	t.Helper()
	for _, unit := range []string{schedulerUnit, agentUnit} {
		begun := time.Now()
		m.run(t, "systemctl stop "+unit)
		if took, result := time.Since(begun), m.unitProperty(t, unit, "Result"); took > 10*time.Second || result != "success" {
			t.Errorf("%s stops in %s: %s, want success in 10 s", unit, took, result)
		}
	}
	m.run(t, "systemctl start "+schedulerUnit+" "+agentUnit)
}

// checkDebRemoval checks that removing the package stops both daemons and keeps their state,
// and that purging it deletes everything.
func (m machine) checkDebRemoval(t *testing.T, before []string) {
	t.Helper()
	m.run(t, "dpkg --remove mesos-gpu")
	m.checkStateAfterRemoval(t, "/etc/mesos-gpu/agent.conf")
	m.run(t, "dpkg --purge mesos-gpu")
	m.checkNothingLeft(t, before)
}

// checkRPMRemoval is checkDebRemoval for an .rpm, which cannot be purged:
// docs/guides/operations.md has the commands that delete the rest.
func (m machine) checkRPMRemoval(t *testing.T, before []string) {
	t.Helper()
	m.run(t, rpm+" --erase mesos-gpu")
	m.checkStateAfterRemoval(t, "/etc/mesos-gpu/agent.conf.rpmsave")
	const rest = "rm -rf /etc/mesos-gpu /var/lib/mesos-gpu /run/mesos-gpu /dev/shm/mesos-gpu-mps; userdel mesos-gpu"
	if !strings.Contains(readFile(t, "../docs/guides/operations.md"), "\n`"+rest+"`") {
		t.Errorf("docs/guides/operations.md does not say: %s", rest)
	}
	m.run(t, rest)
	m.checkNothingLeft(t, before)
}

// checkStateAfterRemoval checks that no process of a removed package runs, and that the
// daemons' state and the configuration exist. Then it stops the cluster.
func (m machine) checkStateAfterRemoval(t *testing.T, configuration string) {
	t.Helper()
	if units := m.run(t, "systemctl list-units --all --no-legend 'mesos-gpu*'"); units != "" {
		t.Errorf("after the removal systemd still has: %s", units)
	}
	if daemons := append(m.listProcesses(t, "mesos-gpu scheduler"), m.listProcesses(t, "mesos-gpu agent")...); len(daemons) > 0 {
		t.Errorf("after the removal still running: %q", daemons)
	}
	m.run(t, "ls "+configuration+" /var/lib/mesos-gpu/scheduler/journal.db /var/lib/mesos-gpu/agent; ! ls /usr/bin/mesos-gpu")
	m.run(t, "systemctl stop cluster; rm -r /etc/systemd/system/mesos-gpu-agent.service.d")
}

func (m machine) checkNothingLeft(t *testing.T, before []string) {
	t.Helper()
	if got := addedFiles(before, m.listFiles(t)); len(got) > 0 {
		t.Errorf("left behind: %q", got)
	}
	if got := m.run(t, "getent passwd mesos-gpu || echo none"); got != "none\n" {
		t.Errorf("left behind: user %s", got)
	}
}
