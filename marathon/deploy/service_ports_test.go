package deploy

import (
	"errors"
	"slices"
	"testing"
	"time"

	"mesos-gpu/marathon"
)

// portsCluster has no instances. Its documents survive restarts.
type portsCluster struct {
	*testing.T
	state     *DesiredState
	documents map[string][]byte
}

func newPortsCluster(t *testing.T) *portsCluster {
	c := &portsCluster{t, nil, map[string][]byte{}}
	c.restart()
	return c
}

// restart records the changes and loads the state from them.
func (c *portsCluster) restart() {
	c.Helper()
	if c.state != nil {
		for key, text := range c.state.TakeChangedDocuments() {
			c.documents[key] = text
		}
	}
	state, err := LoadState(c.documents, func(string) []AppInstance { return nil })
	if err != nil {
		c.Fatal(err)
	}
	state.ServicePorts = marathon.PortRange{First: 10000, Last: 10003}
	c.state = state
}

// put puts apps in one deployment, which ends whatever runs before it.
func (c *portsCluster) put(definitions ...string) error {
	c.Helper()
	var apps []*marathon.App
	for _, text := range definitions {
		a, err := marathon.ParseApp([]byte(text), marathon.ParseSettings{Role: "*"})
		if err != nil {
			c.Fatal(err)
		}
		apps = append(apps, a)
	}
	_, err := c.state.PutApps(time.Unix(0, 0), apps, ChangeOptions{Force: true})
	return err
}

func (c *portsCluster) requirePorts(id string, want ...int) {
	c.Helper()
	a, ok := c.state.App(id)
	if !ok {
		c.Fatalf("there is no app %s", id)
	}
	if got := a.ServicePorts(); !slices.Equal(got, want) {
		c.Errorf("%s: service ports %v, want %v", id, got, want)
	}
}

// Ports of 0 get numbers that no other app has. They keep them over updates and restarts.
func TestServicePortsAreAllotted(t *testing.T) {
	const (
		host   = `{"id": "/host", "cmd": "x", "ports": [0, 10001, 0]}`
		bridge = `{"id": "/bridge", "container": {"docker": {"image": "x"}, "portMappings": [{"containerPort": 80}]}, "networks": [{"mode": "container/bridge"}]}`
	)
	c := newPortsCluster(t)
	if err := c.put(bridge, host); err != nil {
		t.Fatal(err)
	}
	c.requirePorts("/bridge", 10000)
	c.requirePorts("/host", 10002, 10001, 10003)
	c.restart()
	if err := c.put(`{"id": "/host", "cmd": "y", "ports": [0, 10001, 0]}`); err != nil {
		t.Fatal(err)
	}
	c.requirePorts("/host", 10002, 10001, 10003)
	versions := len(c.state.Versions("/bridge"))
	if err := c.put(bridge); err != nil || len(c.state.Versions("/bridge")) != versions {
		t.Errorf("the same definition is a change: %v, %v", err, c.state.Versions("/bridge"))
	}
	var invalid *marathon.ValidationError
	if err := c.put(`{"id": "/more", "cmd": "x"}`); !errors.As(err, &invalid) {
		t.Errorf("all ports are in use: got %v, want an error", err)
	}
	if err := c.put(`{"id": "/required", "cmd": "x", "ports": [0], "requirePorts": true}`); err != nil {
		t.Fatal(err)
	}
	c.requirePorts("/required", 0) // any host port
	if err := c.put(`{"id": "/none", "cmd": "x", "ports": []}`); err != nil {
		t.Fatal(err)
	}
	c.requirePorts("/none")
}

// Apps that an earlier release stored with ports of 0 keep them until they change: a number
// would replace their instances.
func TestScalingAllotsNoServicePorts(t *testing.T) {
	c := newPortsCluster(t)
	if err := c.put(`{"id": "/old", "cmd": "x"}`); err != nil {
		t.Fatal(err)
	}
	c.state.apps["/old"].currentApp().PortDefinitions[0].Port = 0
	before := c.state.apps["/old"].currentApp().VersionInfo.LastConfigChangeAt
	if err := c.put(`{"id": "/old", "cmd": "x", "instances": 3}`); err != nil {
		t.Fatal(err)
	}
	c.requirePorts("/old", 0)
	if after := c.state.apps["/old"].currentApp().VersionInfo.LastConfigChangeAt; after != before {
		t.Errorf("scaling changed the configuration from %s to %s", before, after)
	}
	if err := c.put(`{"id": "/old", "cmd": "y", "instances": 3}`); err != nil {
		t.Fatal(err)
	}
	c.requirePorts("/old", 10000)
}
