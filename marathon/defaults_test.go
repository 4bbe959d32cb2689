package marathon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The defaults of Marathon's interface description, written by hand.
func TestDefaultsMatchMarathon(t *testing.T) {
	want := map[string]string{
		"instances":              `1`,
		"cpus":                   `1`,
		"mem":                    `128`,
		"disk":                   `0`,
		"gpus":                   `0`,
		"executor":               `""`,
		"labels":                 `{}`,
		"requirePorts":           `false`,
		"networks":               `[]`,
		"backoffSeconds":         `1`,
		"backoffFactor":          `1.15`,
		"maxLaunchDelaySeconds":  `300`,
		"killSelection":          `"YOUNGEST_FIRST"`,
		"executorResources.cpus": `0.1`,
		"executorResources.mem":  `32`,
		"executorResources.disk": `10`,
		"fetch[].extract":        `true`,
		"fetch[].executable":     `false`,
		"fetch[].cache":          `false`,
		"unreachableStrategy.inactiveAfterSeconds":   `0`,
		"unreachableStrategy.expungeAfterSeconds":    `0`,
		"residency.relaunchEscalationTimeoutSeconds": `3600`,
		"residency.taskLostBehavior":                 `"WAIT_FOREVER"`,
		"container.type":                             `"DOCKER"`,
		"container.volumes":                          `[]`,
		"container.docker.forcePullImage":            `false`,
		"container.docker.privileged":                `false`,
		"container.docker.parameters":                `[]`,
		"container.linuxInfo.seccomp.unconfined":     `false`,
		"container.volumes[].persistent.constraints": `[]`,
		"container.volumes[].external.shared":        `false`,
		"container.portMappings[].containerPort":     `0`,
		"container.portMappings[].servicePort":       `0`,
		"container.portMappings[].protocol":          `"tcp"`,
		"container.portMappings[].labels":            `{}`,
		"networks[].mode":                            `"container"`,
		"portDefinitions[].port":                     `0`,
		"portDefinitions[].protocol":                 `"tcp"`,
		"ipAddress.discovery.ports[].number":         `0`,
		"ipAddress.discovery.ports[].protocol":       `"tcp"`,
		"healthChecks[].protocol":                    `"HTTP"`,
		"healthChecks[].gracePeriodSeconds":          `300`,
		"healthChecks[].intervalSeconds":             `60`,
		"healthChecks[].timeoutSeconds":              `20`,
		"healthChecks[].delaySeconds":                `15`,
		"healthChecks[].maxConsecutiveFailures":      `3`,
		"healthChecks[].ipProtocol":                  `"IPv4"`,
		"readinessChecks[].name":                     `"readinessCheck"`,
		"readinessChecks[].protocol":                 `"HTTP"`,
		"readinessChecks[].path":                     `"/"`,
		"readinessChecks[].portName":                 `"http-api"`,
		"readinessChecks[].intervalSeconds":          `30`,
		"readinessChecks[].timeoutSeconds":           `10`,
		"readinessChecks[].httpStatusCodesForReady":  `[200]`,
		"readinessChecks[].preserveLastResponse":     `false`,
		"check.http.scheme":                          `"HTTP"`,
		"check.intervalSeconds":                      `60`,
		"check.timeoutSeconds":                       `20`,
		"check.delaySeconds":                         `15`,
	}
	for path, v := range want {
		if old, ok := strings.CutPrefix(path, "container.portMappings"); ok {
			want["container.docker.portMappings"+old] = v
		}
	}
	got := map[string]string{}
	for _, f := range AppFields() {
		if f.Default != "" {
			got[f.Path] = f.Default
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Defaults that depend on other fields of the definition.
func TestDefaultsDependingOnOtherFields(t *testing.T) {
	const docker = `"id": "a", "container": {"docker": {"image": "x"}}`
	const bridge = docker + `, "networks": [{"mode": "container/bridge"}]`
	for name, test := range map[string]struct{ app, field, want string }{
		"network":                   {docker, "networks", `[{"mode":"host"}]`},
		"port in the host's":        {docker, "portDefinitions", `[{"port":0,"name":"default","protocol":"tcp"}]`},
		"no port wanted":            {docker + `, "portDefinitions": []`, "portDefinitions", `[]`},
		"no port definition beyond": {bridge, "portDefinitions", ``},
		"required ports beyond":     {bridge + `, "requirePorts": true`, "requirePorts", `false`},
		"role":                      {docker, "role", `"web"`},
		"upgrade":                   {docker, "upgradeStrategy", `{"maximumOverCapacity":1,"minimumHealthCapacity":1}`},
		"upgrade with a volume": {
			`"id": "a", "container": {"docker": {"image": "x"}, "volumes": [{"containerPath": "d", "mode": "RW", "external": {"name": "n", "provider": "dvdi", "options": {"dvdi/driver": "r"}}}]}`,
			"upgradeStrategy", `{"maximumOverCapacity":0,"minimumHealthCapacity":0.5}`,
		},
		"unreachable": {docker, "unreachableStrategy", `{"inactiveAfterSeconds":0,"expungeAfterSeconds":0}`},
		"default network": {
			docker + `, "networks": [{}]`, "networks", `[{"name":"overlay","mode":"container"}]`,
		},
		"archives": {docker + `, "uris": ["http://h/a.zip?x=1", "http://h/a.txt"]`, "fetch",
			`[{"uri":"http://h/a.zip?x=1","extract":true,"executable":false,"cache":false},{"uri":"http://h/a.txt","extract":false,"executable":false,"cache":false}]`},
		"service ports": {
			bridge + `, "ports": [10000, 10001]`, "container",
			`{"type":"DOCKER","docker":{"image":"x","forcePullImage":false,"privileged":false,"parameters":[]},"volumes":[],"portMappings":[` +
				`{"containerPort":0,"hostPort":0,"servicePort":10000,"name":"default","protocol":"tcp","labels":{}},{"containerPort":0,"hostPort":0,"servicePort":10001,"protocol":"tcp","labels":{}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := testSettings()
			s.DefaultNetwork = "overlay"
			app, err := ParseApp([]byte("{"+test.app+"}"), s)
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]json.RawMessage
			b, err := json.Marshal(app)
			if err == nil {
				err = json.Unmarshal(b, &fields)
			}
			if got := string(fields[test.field]); err != nil || got != test.want {
				t.Errorf("%s: got %s, want %s (%v)", test.field, got, test.want, err)
			}
		})
	}
}

// A definition that has been parsed is complete: parsing it again changes nothing.
func TestDefaultsAreIdempotent(t *testing.T) {
	for name, text := range readCorpus(t, "apps") {
		v, err := decodeJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		var c, d schemaChecker
		first, ok := c.checkValue(appSchema(), v, "", false)
		if !ok || slices.ContainsFunc(c.violations.list, func(v violation) bool { return v.kind == fromSchema }) {
			continue
		}
		second, _ := d.checkValue(appSchema(), first, "", false)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s (-first +second):\n%s", name, diff)
		}
	}
}
