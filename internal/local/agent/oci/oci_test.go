package oci

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"mesos-gpu/isolator/rules"
)

func command(shell bool, value string, arguments ...string) *mesos.CommandInfo {
	c := &mesos.CommandInfo{Shell: &shell, Arguments: arguments}
	if value != "" {
		c.Value = &value
	}
	return c
}

func TestArgs(t *testing.T) {
	both := v1.Config{Entrypoint: []string{"entry", "-e"}, Cmd: []string{"cmd", "-c"}}
	onlyCmd := v1.Config{Cmd: []string{"cmd", "-c"}}
	for _, test := range []struct {
		name    string
		command *mesos.CommandInfo
		config  v1.Config
		want    string
	}{
		{"image's own", command(false, ""), both, "entry -e cmd -c"},
		{"none given", nil, both, "entry -e cmd -c"},
		{"other arguments", command(false, "", "x", "y"), both, "entry -e x y"},
		{"cmd only", command(false, ""), onlyCmd, "cmd -c"},
		{"arguments beat cmd", command(false, "", "x"), onlyCmd, "x"},
		{"value", command(false, "prog"), both, "prog"},
		{"value and arguments", command(false, "/bin/prog", "prog", "a"), both, "/bin/prog a"},
		{"shell", command(true, "a && b"), both, "/bin/sh -c a && b"},
		{"shell without value", command(true, ""), both, "error: the command is for a shell but has no value"},
		{"nothing", command(false, ""), v1.Config{}, "error: neither the command nor the image says what to run"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args, err := Args(test.command, test.config)
			got := strings.Join(args, " ")
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if _, err := Argv(command(false, "")); err == nil {
		t.Error("a command without value passed outside an image")
	}
}

func TestMergeEnvironment(t *testing.T) {
	got := Merge([]string{"A=image", "B=image"}, []string{"B=command", "bad", "=bad", "C=x=y"})
	want := []string{"PATH=" + DefaultPath, "A=image", "B=command", "C=x=y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := Merge([]string{"PATH=/mine"}); got[0] != "PATH=/mine" || len(got) != 1 {
		t.Errorf("a PATH of its own: %v", got)
	}
	secret := mesos.Environment_Variable_SECRET
	c := &mesos.CommandInfo{Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "KEY", Type: &secret}}}}
	if _, err := Variables(c); err == nil || !strings.Contains(err.Error(), "KEY") {
		t.Errorf("a secret passed: %v", err)
	}
}

func TestDriverEnv(t *testing.T) {
	for _, test := range []struct{ image, want []string }{
		{nil, []string{
			"PATH=" + DefaultPath + ":/usr/local/nvidia/bin",
			"LD_LIBRARY_PATH=/usr/local/cuda/compat:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
		}},
		{[]string{"PATH=/usr/local/nvidia/bin:/bin", "LD_LIBRARY_PATH=/x:/usr/local/nvidia/lib"}, []string{
			"PATH=/usr/local/nvidia/bin:/bin",
			"LD_LIBRARY_PATH=/x:/usr/local/nvidia/lib:/usr/local/cuda/compat:/usr/local/nvidia/lib64",
		}},
	} {
		if diff := cmp.Diff(test.want, DriverEnv(test.image)); diff != "" {
			t.Errorf("of %v (-want +got):\n%s", test.image, diff)
		}
	}
}

func TestSpecDevicesAndPrivileges(t *testing.T) {
	s := Spec(Container{
		Nodes: []rules.Node{{Name: "nvidia0", Major: 195}},
		Rules: []rules.Rule{{Kind: 'c', Major: rules.Any, Minor: rules.Any, Access: "m"}, {Kind: 'c', Major: 195, Minor: 0, Access: "rw"}},
		Binds: []Bind{{"/host", "/there", true}},
	})
	text, err := json.Marshal(s.Linux.Resources.Devices)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"allow":false,"access":"rwm"},{"allow":true,"type":"c","access":"m"},{"allow":true,"type":"c","major":195,"minor":0,"access":"rw"}]`
	if string(text) != want {
		t.Errorf("rules %s\nwant  %s", text, want)
	}
	if d := s.Linux.Devices; len(d) != 1 || d[0].Path != "/dev/nvidia0" || *d[0].FileMode != 0o666 {
		t.Errorf("devices %v", d)
	}
	if !s.Process.NoNewPrivileges || len(s.Process.Capabilities.Effective) != 14 || len(s.Process.Capabilities.Ambient) != 0 {
		t.Errorf("process %+v", s.Process)
	}
	if c := Spec(Container{UID: 5}).Process.Capabilities; len(c.Effective)+len(c.Permitted) != 0 {
		t.Errorf("somebody other than root has %v", c)
	}
	last := s.Mounts[len(s.Mounts)-1]
	if diff := cmp.Diff(specs.Mount{Destination: "/there", Type: "bind", Source: "/host", Options: []string{"rbind", "rprivate", "ro"}}, last); diff != "" {
		t.Errorf("bind (-want +got):\n%s", diff)
	}
}
