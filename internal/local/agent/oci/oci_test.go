package oci

import (
	"encoding/json"
	"strings"
	"syscall"
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

// TestImageArgs checks the complete table of Mesos's docker/runtime isolator: eight
// kinds of commands, each in four kinds of images.
func TestImageArgs(t *testing.T) {
	cmd, entry := []string{"cmd0", "cmd1"}, []string{"entry0", "entry1"}
	images := []v1.Config{{}, {Cmd: cmd}, {Entrypoint: entry}, {Entrypoint: entry, Cmd: cmd}}
	const (
		none    = "error: the image has neither entrypoint nor cmd: give the command a value"
		noValue = "error: the command is for a shell but has no value"
	)
	for _, test := range []struct {
		name    string
		command *mesos.CommandInfo
		want    [4]string // of each of the images
	}{
		{"nothing", nil, [4]string{none, "cmd0 cmd1", "entry0 entry1", "entry0 entry1 cmd0 cmd1"}},
		{"no shell", command(false, ""), [4]string{none, "cmd0 cmd1", "entry0 entry1", "entry0 entry1 cmd0 cmd1"}},
		{"no shell, argv", command(false, "", "x", "y"), [4]string{none, "cmd0 x y", "entry0 entry1 x y", "entry0 entry1 x y"}},
		{"no shell, value", command(false, "/prog"), same("/prog")},
		{"no shell, value, argv", command(false, "/prog", "prog", "x"), same("/prog x")},
		{"shell", command(true, ""), same(noValue)},
		{"shell, argv", command(true, "", "x"), same(noValue)},
		{"shell, value", command(true, "a && b"), same("/bin/sh -c a && b")},
		{"shell, value, argv", command(true, "a && b", "x"), same("/bin/sh -c a && b")},
	} {
		for i, image := range images {
			args, err := ImageArgs(test.command, image)
			got := strings.Join(args, " ")
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != test.want[i] {
				t.Errorf("%s, entrypoint %v, cmd %v: got %q, want %q", test.name, image.Entrypoint, image.Cmd, got, test.want[i])
			}
		}
	}
	if _, err := CommandArgs(command(false, "")); err == nil {
		t.Error("a command without value passed outside an image")
	}
}

func same(s string) [4]string { return [4]string{s, s, s, s} }

func TestMergeEnvironment(t *testing.T) {
	got := MergeEnv([]string{"A=image", "B=image"}, []string{"B=command", "bad", "=bad", "C=x=y"})
	want := []string{"PATH=" + DefaultPath, "A=image", "B=command", "C=x=y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := MergeEnv([]string{"PATH=/mine"}); got[0] != "PATH=/mine" || len(got) != 1 {
		t.Errorf("a PATH of its own: %v", got)
	}
	secret := mesos.Environment_Variable_SECRET
	c := &mesos.CommandInfo{Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "KEY", Type: &secret}}}}
	if _, err := CommandEnv(c); err == nil || !strings.Contains(err.Error(), "KEY") {
		t.Errorf("a secret passed: %v", err)
	}
}

func TestSpecDevicesAndPrivileges(t *testing.T) {
	s := BuildSpec(ContainerSpec{
		Nodes: []rules.DeviceNode{{Name: "nvidia0", Major: 195}},
		Rules: []rules.DeviceRule{{Kind: 'c', Major: rules.AnyNumber, Minor: rules.AnyNumber, Access: "m"}, {Kind: 'c', Major: 195, Minor: 0, Access: "rw"}},
		Binds: []BindMount{{"/host", "/there", true}},
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
	if c := BuildSpec(ContainerSpec{User: syscall.Credential{Uid: 5}}).Process.Capabilities; len(c.Effective)+len(c.Permitted) != 0 {
		t.Errorf("a user other than root has %v", c)
	}
	last := s.Mounts[len(s.Mounts)-1]
	if diff := cmp.Diff(specs.Mount{Destination: "/there", Type: "bind", Source: "/host", Options: []string{"rbind", "rprivate", "ro"}}, last); diff != "" {
		t.Errorf("bind (-want +got):\n%s", diff)
	}
}
