package job

import "testing"

func TestAgentFilePath(t *testing.T) {
	for uri, want := range map[string]struct {
		name string
		own  bool
	}{
		"/etc/x":                        {"/etc/x", true},
		"/etc/x://../shadow":            {"/etc/x://../shadow", true},
		"/":                             {"/", true},
		"file:///etc/x":                 {"/etc/x", true},
		"file://localhost/etc/x":        {"/etc/x", true},
		"FILE://LocalHost/etc/x":        {"/etc/x", true},
		"file:/etc/x":                   {"/etc/x", true},
		"file:///etc/%73hadow":          {"/etc/%73hadow", true},
		"file://gpu1/etc/x":             {"gpu1/etc/x", true},
		"file:":                         {"", true},
		"x/y":                           {"x/y", true},
		"":                              {"", true},
		"https://example.org/file:///x": {"https://example.org/file:///x", false},
		"hdfs://n/x":                    {"hdfs://n/x", false},
	} {
		if name, own := AgentFilePath(uri); name != want.name || own != want.own {
			t.Errorf("%q: got %q %v, want %q %v", uri, name, own, want.name, want.own)
		}
	}
}
