package cgroup

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/internal/opener"
	"mesos-gpu/isolator/rules"
)

func TestEncode(t *testing.T) {
	list := append(rules.Standard(), rules.Rule{Kind: 'c', Major: 195, Minor: 0, Access: "rw"}, rules.Rule{Kind: 'b', Major: rules.Any, Minor: 4, Access: "r"})
	entries, err := encode(list)
	if err != nil {
		t.Fatal(err)
	}
	if got := entries[key{devChar, 195, 0}]; got != accRead|accWrite {
		t.Errorf("c 195:0 rw is encoded as %d", got)
	}
	var back []rules.Rule
	for k, bits := range entries {
		back = append(back, decode(k, bits))
	}
	if diff := cmp.Diff(rules.Merge(list), rules.Merge(back)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEncodeRefuses(t *testing.T) {
	var many []rules.Rule
	for i := range int64(maxRules + 1) {
		many = append(many, rules.Rule{Kind: 'c', Major: 1, Minor: i, Access: "r"})
	}
	for _, c := range []struct {
		list []rules.Rule
		want string
	}{
		{many, "1025 rules, a program holds 1024"},
		{[]rules.Rule{{Kind: 'a', Major: rules.Any, Minor: rules.Any, Access: "rwm"}}, "kind a is neither b nor c"},
		{[]rules.Rule{{Kind: 'c', Major: 1<<32 - 1, Minor: 0, Access: "r"}}, "4294967295 is no device number"},
		{[]rules.Rule{{Kind: 'c', Major: 1, Minor: -2, Access: "r"}}, "-2 is no device number"},
	} {
		if _, err := encode(c.list); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if _, err := encode(many[:maxRules]); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	if len(own.name()) >= 15 || len(fallback.name()) >= 15 {
		t.Errorf("%s and %s are cut by a kernel that keeps 15 bytes", own.name(), fallback.name())
	}
	if version(program(3)[1:]) == version(program(3)) {
		t.Error("another program has the same name")
	}
}

// random makes rules of few devices that no driver serves, so that most of
// them meet.
func random(r *rand.Rand) []rules.Rule {
	pick := func(numbers ...int64) int64 { return numbers[r.IntN(len(numbers))] }
	var list []rules.Rule
	for range r.IntN(6) {
		list = append(list, rules.Rule{
			Kind: "cb"[r.IntN(2)], Major: pick(rules.Any, 195, 196), Minor: pick(rules.Any, 0, 1),
			Access: []string{"r", "w", "m", "rw", "rm", "wm", "rwm"}[r.IntN(7)],
		})
	}
	return list
}

// The kernel decides by our program as it does by the lists of version 1, and
// both as rules.Allows says.
func TestRootVersionsAgree(t *testing.T) {
	type device struct {
		rule rules.Rule
		path string
	}
	both(t, func(t *testing.T, c kernel, path string) {
		var devices []device
		for _, kind := range []byte("cb") {
			for _, major := range []uint32{195, 196} {
				for minor := range uint32(2) {
					devices = append(devices, device{
						rules.Rule{Kind: kind, Major: int64(major), Minor: int64(minor)},
						opener.Node(t, fmt.Sprintf("%c-%d-%d", kind, major, minor), kind, major, minor),
					})
				}
			}
		}
		o := opener.Start(t)
		confine(t, c, path, rules.Standard())
		add(t, c, path, o)
		r := rand.New(rand.NewPCG(1, 2))
		// The opener's own files and its answers need none of the rules.
		for range 60 {
			list := random(r)
			confine(t, c, path, list)
			for _, d := range devices {
				for _, access := range []string{"r", "w", "rw", "m"} {
					want := d.rule
					want.Access = access
					got := o.Try(t, access, d.path)
					if denied := got == unix.EPERM; denied == rules.Allows(list, want) {
						t.Fatalf("%v: %s gave %q", list, want, got.Error())
					}
				}
			}
		}
	})
}
