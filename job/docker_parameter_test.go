package job

import (
	"slices"
	"strings"
	"testing"
)

// TestValidateParameter checks the error for each option that every executor rejects. An empty text means that the
// option is accepted.
func TestValidateParameter(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"hostname", "web", ""}, {"h", "web", ""}, {"env", "", ""}, {"e", "A=b", ""}, {"dns-option", "ndots:1", ""},
		{"privileged", "true", `"privileged" is not served: served are add-host, cap-add, `},
		{"frobnicate", "1", `"frobnicate" is not served`},
		{"memory", "1g", `"memory" is not served`}, {"p", "80:80", `"p" is not served`},
		{"--init", "true", `"--init" is not an option of docker run without its dashes`},

		{"cap-add", "IPC_LOCK", ""}, {"cap-add", "cap_net_raw", ""},
		{"cap-add", "SYS_ADMIN", `"cap-add=SYS_ADMIN": this capability may open every GPU of the agent: served are IPC_LOCK, `},
		{"cap-add", "ALL", "may open every GPU"}, {"cap-drop", "ALL", ""},
		{"init", "true", ""}, {"init", "yes", "it is neither true nor false"}, {"read-only", "0", ""}, {"read-only", "", "it is neither true nor false"},
		{"ipc", "host", ""}, {"ipc", "none", ""}, {"ipc", "container:x", "served are private, shareable"}, // the operator of an agent decides about host
		{"network", "weave", ""}, {"net", "container:x", "another container's network is not served"},
		{"label", "team=vision", ""}, {"l", "mesos-gpu.task=x", "labels of that prefix are the executor's own"},
		{"log-driver", "journald", ""}, {"log-driver", "", "it names no driver"},
		{"log-opt", "max-size=1m", ""}, {"log-opt", "max-size", "it reads NAME=VALUE"}, {"sysctl", "net.core.somaxconn", "it reads NAME=VALUE"},
		{"shm-size", "16m", ""}, {"memory-swap", "-1", ""}, {"shm-size", "much", `"shm-size=much": `},
		{"pids-limit", "100", ""}, {"pids-limit", "many", "it is not a whole number"}, {"memory-swappiness", "0.5", "it is not a whole number"},
		{"ulimit", "nofile=100:200", ""}, {"ulimit", "files", `"ulimit=files": `},
		{"v", "/data:/data:ro", ""}, {"volume", "scratch:/scratch", ""},
		{"volume", "/data", "it reads HOST:CONTAINER[:MODE]"}, {"volume", "./data:/data", "with absolute paths"}, {"volume", ":/data", "with absolute paths"},
	} {
		err := DockerParameter{c.key, c.value}.Validate()
		if got := ""; err != nil {
			if got = err.Error(); c.want == "" || !strings.Contains(got, c.want) {
				t.Errorf("%s=%s: got %s, want %s", c.key, c.value, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("%s=%s is accepted, want %s", c.key, c.value, c.want)
		}
	}
}

// TestDockerOptionsHaveOneName checks that short names stand for supported options.
func TestDockerOptionsHaveOneName(t *testing.T) {
	for _, short := range []string{"net", "e", "h", "l", "u", "v", "w"} {
		if long := (DockerParameter{Key: short}).OptionName(); !slices.Contains(DockerOptions(), long) || slices.Contains(DockerOptions(), short) {
			t.Errorf("%s leads to %s, which is not served", short, long)
		}
	}
}
