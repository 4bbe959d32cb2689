package master

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/internal/zkconn"
)

func TestParseMasters(t *testing.T) {
	for text, want := range map[string]masterAddresses{
		"http://10.0.0.1:5050":                      {urls: []string{"http://10.0.0.1:5050"}},
		"10.0.0.1, m2.example:5051,https://m3:443/": {urls: []string{"http://10.0.0.1:5050", "http://m2.example:5051", "https://m3:443"}},
		"[::1]:5050,fd00::1,http://[::2]:1":         {urls: []string{"http://[::1]:5050", "http://[fd00::1]:5050", "http://[::2]:1"}},
		"zk://z1:2181,z2,z3:3/mesos": {zk: &zkAddress{TargetFolder: zkconn.TargetFolder{
			Hosts: []string{"z1:2181", "z2:2181", "z3:3"},
			Path:  "/mesos",
		}}},
		"zk://u:p@w@[::1]:2181,fd00::1/a/b/": {zk: &zkAddress{
			TargetFolder: zkconn.TargetFolder{Hosts: []string{"[::1]:2181", "[fd00::1]:2181"}, Path: "/a/b"},
			auth:         "u:p@w",
		}},
	} {
		got, err := parseMasters(text, "http")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(masterAddresses{}, zkAddress{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"":                          "no master given",
		" , ":                       "no master given",
		"ftp://m":                   `master "ftp://m" is not a URL`,
		"http://":                   "is not a URL",
		"http://gpu:hunter2@m:5050": "has a user in its URL",
		"zk://u:hunter2@z1,z2":      "a path of its own is missing",
		"zk://z1/":                  "a path of its own is missing",
		"zk://u:hunter2@/mesos":     "a host is missing",
		"zk://hunter2@z1/mesos":     "has a user and no password",
	} {
		_, err := parseMasters(text, "http")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v, want one with %q and without a password", text, err, want)
		}
	}
	if got, _ := parseMasters("m1", "https"); len(got.urls) != 1 || got.urls[0] != "https://m1:5050" {
		t.Errorf("with TLS m1 is %v", got.urls)
	}
}

func TestLeadingNode(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes []string
		node  string
		kind  nodeKind
	}{
		"none":                       {},
		"no masters":                 {nodes: []string{"log_replicas", "json.info_", "json.info_x"}},
		"the lowest number":          {nodes: []string{"json.info_0000000010", "json.info_0000000009", "log_replicas"}, node: "json.info_0000000009", kind: jsonInfo},
		"old and new":                {nodes: []string{"json.info_0000000010", "info_0000000002"}, node: "info_0000000002", kind: binaryInfo},
		"the counter has overflowed": {nodes: []string{"json.info_0000000010", "json.info_-2147483648"}, node: "json.info_-2147483648", kind: jsonInfo},
	} {
		if node, kind := leadingNode(tt.nodes); node != tt.node || kind != tt.kind {
			t.Errorf("%s: %q of kind %d, want %q of kind %d", name, node, kind, tt.node, tt.kind)
		}
	}
}

// TestMasterURL parses what a Mesos 1.12 master wrote, and other valid forms.
func TestMasterURL(t *testing.T) {
	const recorded = `{"address":{"hostname":"m1.example","ip":"10.0.0.7","port":5050},"capabilities":[{"type":"AGENT_UPDATE"}],"hostname":"m1.example","id":"8a71","ip":117440522,"pid":"master@10.0.0.7:5050","port":5050,"version":"1.12.0"}`
	for name, tt := range map[string]struct{ text, scheme, want string }{
		"http by IP":       {recorded, "http", "http://10.0.0.7:5050"},
		"https by name":    {recorded, "https", "https://m1.example:5050"},
		"before address":   {`{"hostname":"m1","ip":117440522,"port":5051}`, "http", "http://10.0.0.7:5051"},
		"name alone":       {`{"hostname":"m1","port":5051}`, "http", "http://m1:5051"},
		"IPv6":             {`{"address":{"ip":"fd00::1","port":5050}}`, "http", "http://[fd00::1]:5050"},
		"IPv6 without TLS": {`{"address":{"hostname":"::1","ip":"::1","port":5050}}`, "https", "https://[::1]:5050"},
	} {
		if got, err := masterURL([]byte(tt.text), tt.scheme); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "\x0a\x05", "{}", `{"hostname":"m1"}`, `{"port":1}`} {
		if got, err := masterURL([]byte(text), "http"); err == nil {
			t.Errorf("%q leads to %s", text, got)
		}
	}
}
