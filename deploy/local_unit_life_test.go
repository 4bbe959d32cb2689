//go:build packages

package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/nvmltest"
)

const localUnit = "mesos-gpu-local"

// TestLocalUnitUnderSystemd runs mesos-gpu-local.service on a machine with systemd. Two tasks hold a GPU each, and keep their
// processes and devices through a restart of the service, SIGKILL, a stop with a later start, and an upgrade of the package. The
// kernel is asked for the devices after each of these: a process that enters the task's cgroup can open the task's GPU only. After a
// power loss the tasks are started again, and the queue is kept. Without a driver the service does not start.
func TestLocalUnitUnderSystemd(t *testing.T) {
	for _, layout := range availableCgroupVersions(t) {
		t.Run(layout, func(t *testing.T) {
			m := bootMachine(t, layout)
			m.installStandIns(t)
			before := m.listFiles(t)
			m.installPackage(t, os.Getenv("MESOS_GPU_PACKAGES"))
			if state := m.unitProperty(t, localUnit, "UnitFileState") + " " + m.unitProperty(t, localUnit, "ActiveState"); state != "disabled inactive" {
				t.Errorf("%s is %s, want disabled inactive", localUnit, state)
			}
			m.run(t, `mkdir -p /etc/systemd/system/`+localUnit+`.service.d
				printf '[Service]\nEnvironment=`+nvmltest.StateVariable+`=/etc/nvml\n' >/etc/systemd/system/`+localUnit+`.service.d/standin.conf
				systemctl daemon-reload; mv /usr/lib/libnvidia-ml.so.1 /root; ! systemctl start `+localUnit)
			m.awaitStatus(t, localUnit, "no NVIDIA driver") // it does not simulate GPUs
			if out := m.run(t, "mv /root/libnvidia-ml.so.1 /usr/lib; systemctl enable "+localUnit+"; systemctl restart "+
				localUnit+"; mesos-gpu gpus --no-headers"); strings.Count(out, "GPU-") != 2 {
				t.Errorf("when the service has started, it has the GPUs %q, want 2", out)
			}
			for _, name := range []string{"first", "second"} {
				m.run(t, `printf 'name: `+name+
					`\ngpus: 1\ncpus: 0.1\nmem: 32MiB\ncommand: exec sleep 600\n' >/root/job.yaml; mesos-gpu submit /root/job.yaml; mesos-gpu wait --for running `+
					name)
			}
			devices := m.taskDevices(t)
			tasks := m.taskProcesses(t)
			if len(devices) != 2 || devices[0] == devices[1] {
				t.Fatalf("the tasks may open the GPUs %q, want one each", devices)
			}
			for _, event := range []struct{ name, script string }{
				{"restart", "systemctl restart " + localUnit},
				{"SIGKILL", "systemctl kill --kill-whom=main --signal=KILL " + localUnit},
				{"stop and start", "systemctl stop " + localUnit + "; systemctl start " + localUnit},
				{"upgrade", ""},
			} {
				pid := m.unitProperty(t, localUnit, "MainPID")
				if event.script == "" {
					m.installPackage(t, filepath.Join(os.Getenv("MESOS_GPU_PACKAGES"), "next"))
				} else {
					m.run(t, event.script)
				}
				m.awaitCondition(t, "the service runs again after "+event.name, func() bool {
					now := m.unitProperty(t, localUnit, "MainPID")
					return now != "0" && now != pid
				})
				m.awaitLocal(t)
				m.awaitCondition(t, "both tasks run after "+event.name, func() bool {
					return strings.Count(m.run(t, "mesos-gpu describe first; mesos-gpu describe second"), ".1.") > 0 &&
						strings.Count(m.run(t, "mesos-gpu ps --no-headers"), "RUNNING") == 2
				})
				if now := m.taskProcesses(t); !slices.Equal(now, tasks) {
					t.Errorf("after %s the processes are %q, before it they were %q", event.name, now, tasks)
				}
				if now := m.taskDevices(t); !slices.Equal(now, devices) {
					t.Errorf("after %s the tasks may open the GPUs %q, before it %q", event.name, now, devices)
				}
			}
			if got := m.run(t, "mesos-gpu version | head -n 1"); got != "mesos-gpu v0.0.2\n" {
				t.Errorf("after the upgrade: %s", got)
			}
			m.checkReboot(t, devices)
			m.run(t, "mesos-gpu kill first second waits; mesos-gpu run --gpus 2 --cpus 0.1 --mem 32MiB -- true")
			if left := m.listProcesses(t, "sleep 600"); len(left) > 0 {
				t.Errorf("processes of killed tasks: %q", left)
			}
			m.run(t, "dpkg --remove mesos-gpu; ls /var/lib/mesos-gpu/local/scheduler.journal; dpkg --purge mesos-gpu; rm -r /etc/systemd/system/"+
				localUnit+".service.d /root/job.yaml")
			m.checkNothingLeft(t, before)
		})
	}
}

// checkReboot checks what a power loss leaves: the queue with a job that waits, and both tasks in their second attempt, with a GPU
// each. The service starts after the stand-ins of devices exist.
func (m *machine) checkReboot(t *testing.T, devices []string) {
	t.Helper()
	m.run(t,
		`printf 'name: waits\ngpus: 2\ncpus: 0.1\nmem: 32MiB\ncommand: exec sleep 600\n' >/root/job.yaml; mesos-gpu submit /root/job.yaml; systemctl disable `+
			localUnit)
	m.reboot(t)
	if left := m.listProcesses(t, "sleep 600"); len(left) > 0 {
		t.Fatalf("after the reboot still running: %q", left)
	}
	m.addDevices(t)
	m.run(t, "systemctl enable --now "+localUnit)
	m.awaitLocal(t)
	m.awaitCondition(t, "both tasks run in their second attempt", func() bool {
		list := m.run(t, "mesos-gpu ps --no-headers")
		return strings.Count(list, "RUNNING") == 2 && strings.Contains(m.run(t, "mesos-gpu describe first"), "first.0.2.") &&
			strings.Contains(m.run(t, "mesos-gpu describe second"), "second.0.2.")
	})
	if list := m.run(t, "mesos-gpu queue --no-headers"); !strings.Contains(list, "waits") {
		t.Errorf("after the reboot the queue is %q", list)
	}
	if now := m.taskDevices(t); len(now) != 2 || now[0] == now[1] || !slices.Contains(devices, now[0]) || !slices.Contains(devices, now[1]) {
		t.Errorf("after the reboot the tasks may open the GPUs %q, want one each", now)
	}
}

// awaitLocal waits until the service's socket answers and both GPUs are offered.
func (m machine) awaitLocal(t *testing.T) {
	t.Helper()
	m.awaitCondition(t, "both GPUs are offered", func() bool {
		out, err := m.newCommand(t, "mesos-gpu gpus --no-headers").Output()
		return err == nil && strings.Count(string(out), "GPU-") == 2
	})
}

// taskDevices returns, for each task, the GPUs that a process in the task's device cgroup can open. The nodes have no driver: to
// open one that is allowed fails with another error than to open one that is not.
func (m machine) taskDevices(t *testing.T) (list []string) {
	t.Helper()
	var processes []string
	m.awaitCondition(t, "both tasks run their command", func() bool { // after their shell
		processes = slices.DeleteFunc(m.listProcesses(t, "sleep 600"), func(process string) bool {
			_, command, _ := strings.Cut(process, " ")
			return !strings.HasPrefix(command, "sleep")
		})
		return len(processes) == 2
	})
	for _, process := range processes {
		pid, _, _ := strings.Cut(process, " ")
		out := m.run(t, `mount=$(awk '$3 == "cgroup" && $4 ~ /(^|,)devices(,|$)/ { print $2; exit }' /proc/mounts)
			group=$(awk -F: '$2 ~ /(^|,)devices(,|$)/ { print $3 }' /proc/`+pid+`/cgroup)
			sh -c 'echo $$ >"$0"; for n in 0 1; do true </dev/nvidia$n; done' "$mount$group/cgroup.procs" 2>&1 || true`)
		open := ""
		for _, node := range []string{"nvidia0", "nvidia1"} {
			switch {
			case strings.Contains(out, node+": No such device or address"):
				open += node
			case !strings.Contains(out, node+": Operation not permitted"):
				t.Errorf("the probe in the cgroup of %s prints %q", process, out)
			}
		}
		list = append(list, open)
	}
	return list
}
