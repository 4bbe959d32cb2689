package cgroup

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/isolator/rules"
)

func TestEncodeRules(t *testing.T) {
	list := append(rules.StandardRules(), rules.DeviceRule{Kind: 'c', Major: 195, Minor: 0, Access: "rw"}, rules.DeviceRule{
		Kind:   'b',
		Major:  rules.AnyNumber,
		Minor:  4,
		Access: "r",
	})
	entries, err := encodeRules(list)
	if err != nil {
		t.Fatal(err)
	}
	if got := entries[ruleKey{devChar, 195, 0}]; got != accRead|accWrite {
		t.Errorf("c 195:0 rw is encoded as %d", got)
	}
	var back []rules.DeviceRule
	for k, bits := range entries {
		back = append(back, decodeRule(k, bits))
	}
	if diff := cmp.Diff(rules.MergeRules(list), rules.MergeRules(back)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEncodeRulesRejects(t *testing.T) {
	var many []rules.DeviceRule
	for i := range int64(maxRules + 1) {
		many = append(many, rules.DeviceRule{Kind: 'c', Major: 1, Minor: i, Access: "r"})
	}
	for _, c := range []struct {
		list []rules.DeviceRule
		want string
	}{
		{many, "1025 rules, a program holds 1024"},
		{[]rules.DeviceRule{{Kind: 'a', Major: rules.AnyNumber, Minor: rules.AnyNumber, Access: "rwm"}}, "kind a is neither b nor c"},
		{[]rules.DeviceRule{{Kind: 'c', Major: 1<<32 - 1, Minor: 0, Access: "r"}}, "4294967295 is no device number"},
		{[]rules.DeviceRule{{Kind: 'c', Major: 1, Minor: -2, Access: "r"}}, "-2 is no device number"},
	} {
		if _, err := encodeRules(c.list); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := encodeRules(many[:maxRules]); err != nil {
		t.Error(err)
	}
}

func TestProgramNames(t *testing.T) {
	if len(ownRole.programName()) >= 15 || len(defaultRole.programName()) >= 15 {
		t.Errorf("%s and %s are cut by a kernel that keeps 15 bytes", ownRole.programName(), defaultRole.programName())
	}
	if programVersion(buildProgram(3)[1:]) == programVersion(buildProgram(3)) {
		t.Error("another program has the same name")
	}
}

// randomRules returns rules for a few devices without a driver, so that many rules
// overlap.
func randomRules(r *rand.Rand) []rules.DeviceRule {
	pick := func(numbers ...int64) int64 { return numbers[r.IntN(len(numbers))] }
	var list []rules.DeviceRule
	for range r.IntN(6) {
		list = append(list, rules.DeviceRule{
			Kind: "cb"[r.IntN(2)], Major: pick(rules.AnyNumber, 195, 196), Minor: pick(rules.AnyNumber, 0, 1),
			Access: []string{"r", "w", "m", "rw", "rm", "wm", "rwm"}[r.IntN(7)],
		})
	}
	return list
}

// The kernel decides equally by our v2 program and by the v1 device lists, and both
// decide like rules.Allows.
func TestRootV1AndV2Agree(t *testing.T) {
	type device struct {
		rule rules.DeviceRule
		path string
	}
	onBothVersions(t, func(t *testing.T, c testedHierarchy, path string) {
		var devices []device
		for _, kind := range []byte("cb") {
			for _, major := range []uint32{195, 196} {
				for minor := range uint32(2) {
					devices = append(devices, device{
						rules.DeviceRule{Kind: kind, Major: int64(major), Minor: int64(minor)},
						opener.MakeNode(t, fmt.Sprintf("%c-%d-%d", kind, major, minor), kind, major, minor),
					})
				}
			}
		}
		o := opener.Start(t)
		confine(t, c, path, rules.StandardRules())
		addOpener(t, c, path, o)
		r := rand.New(rand.NewPCG(1, 2))
		// The opener's own files and its output need no rules.
		for range 60 {
			list := randomRules(r)
			confine(t, c, path, list)
			for _, d := range devices {
				for _, access := range []string{"r", "w", "rw", "m"} {
					want := d.rule
					want.Access = access
					got := o.TryAccess(t, access, d.path)
					if denied := got == unix.EPERM; denied == rules.Allows(list, want) {
						t.Fatalf("%v: %s gave %q", list, want, got.Error())
					}
				}
			}
		}
	})
}
