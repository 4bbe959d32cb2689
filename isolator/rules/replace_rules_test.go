package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplaceGPURules(t *testing.T) {
	grant := "c *:* m\nc 1:3 rwm\nc 195:255 rwm\nc 510:0 rwm\nc 195:1 rw\nc 234:31 rw\n"
	none := "c *:* m\nc 1:3 rwm\n"
	cases := []struct{ name, now, grant, want string }{
		{"unconfined cgroup", "a *:* rwm\n", grant, grant},
		{"all devices allowed", "c 1:3 rwm\nc *:* rwm\n", grant, grant},
		{"as Mesos left it", "c *:* m\nc 1:3 rwm\nc 10:229 rw\nb 7:0 r\n", grant,
			"b 7:0 r\nc *:* m\nc 1:3 rwm\nc 10:229 rw\nc 195:1 rw\nc 195:255 rwm\nc 234:31 rw\nc 510:0 rwm\n"},
		{"what it held goes", "c 1:3 rwm\nc 195:* rw\nc 195:7 rwm\nc 510:0 rwm\nc 234:40 r\n", none, "c 1:3 rwm\n"},
		{"an operator's NVSwitch stays", "c 509:255 rw\nc 195:2 rw\n", none, "c 509:255 rw\n"},
		{"block devices of those numbers stay", "b 195:1 rw\n", none, "b 195:1 rw\n"},
		{"the grant's other rules are not added", "c 195:0 rw\n", grant, "c 195:1 rw\nc 195:255 rwm\nc 234:31 rw\nc 510:0 rwm\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			now, grant := parsed(t, c.now), parsed(t, c.grant)
			if diff := cmp.Diff(parsed(t, c.want), ReplaceGPURules(now, grant, majors)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parsed(t, c.now), now); diff != "" {
				t.Errorf("the argument was changed (-want +got):\n%s", diff)
			}
		})
	}
}

// A major number of 0 means that the module is not loaded.
func TestReplaceGPURulesWithoutModules(t *testing.T) {
	now := parsed(t, "c 0:5 rw\nc 195:0 rw\n")
	if got := strings.Join(text(ReplaceGPURules(now, nil, MajorNumbers{})), "\n"); got != "c 0:5 rw" {
		t.Errorf("got %s", got)
	}
}

func parsed(t *testing.T, list string) []DeviceRule {
	t.Helper()
	rules, err := ParseRules(list)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}
