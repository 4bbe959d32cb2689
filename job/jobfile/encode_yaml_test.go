package jobfile_test

import (
	"testing"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job/jobfile"
)

// Printable characters of all planes are written as they are, and what is written is read as the same value.
func TestEncodeYAMLOfAllPlanes(t *testing.T) {
	for _, test := range []struct{ value, want string }{
		{"🚀 start", "🚀 start\n"},
		{"echo 🚀\necho \"é 中\"\n", "|\n  echo 🚀\n  echo \"é 中\"\n"},
		{"\ue000\ue001🚀🎉", "\ue000\ue001🚀🎉\n"},
		{`a \U0001F680`, "a \\U0001F680\n"},
		{"tag \U000E0041", "\"tag \\U000E0041\"\n"},
		{"tab\t🚀\x00", "\"tab\\t🚀\\0\"\n"},
	} {
		got, err := jobfile.EncodeYAML(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: test.value})
		if err != nil || string(got) != test.want {
			t.Errorf("%q: %q (%v), want %q", test.value, got, err, test.want)
		}
		var back string
		if err := yaml.Unmarshal(got, &back); err != nil || back != test.value {
			t.Errorf("%q is read as %q (%v)", got, back, err)
		}
	}
}
