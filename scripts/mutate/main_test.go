package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/testneeds"
)

// module is a module whose tests state a part of what its code does.
var module = map[string]string{
	"go.mod": "module example\n\ngo 1.26\n",
	"quota.go": `package example

type Limit struct{ Max, Held int }

func (l *Limit) Add(n int) bool {
	if n < 0 || l.Held+n > l.Max {
		return false
	}
	l.Held += n
	return true
}

func (l *Limit) Usage() float64 { return float64(l.Held) / float64(l.Max) }

func Sum[T int | float64](list ...T) (sum T) {
	for _, n := range list {
		sum = sum + n
	}
	return sum
}

func Loop() (n int) {
	for n < 3 {
		n++
	}
	return n
}
`,
	"quota_test.go": `package example

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

func TestLoopAsAnotherUser(t *testing.T) {
	runtime.LockOSThread() // the thread ends with the test
	if syscall.Getuid() == 0 {
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
	}
	if Loop() != 3 {
		t.Error("wrong count")
	}
	if _, err := os.Stat(os.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestAddRejectsWhatExceedsTheLimit(t *testing.T) {
	l := Limit{Max: 3, Held: 1}
	if l.Add(9) || !l.Add(1) || l.Held != 2 {
		t.Error(l)
	}
}

func TestSum(t *testing.T) {
	if Sum(1, 2, 3) != 6 || Sum[float64]() != 0 {
		t.Error("wrong sum")
	}
}
`,
}

// The report has each fault that no test detects and no other, and the sources are not
// changed. A fault that makes a loop endless is detected, as are faults that a test reaches
// as another user.
func TestReportListsUndetectedFaults(t *testing.T) {
	if os.Getuid() == 0 {
		testneeds.RequireProgram(t, "unshare", "util-linux")
	}
	dir := t.TempDir()
	for name, text := range module {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	if err := checkPackages(&out, 0, 1, "", []string{"."}); err != nil {
		t.Fatal(err)
	}
	head, survivors, _ := strings.Cut(out.String(), "\n")
	want := "  quota.go:6: < becomes <=\n" +
		"  quota.go:6: > becomes >=\n" +
		"  quota.go:13: return float64(l.Held) / float64(l.Max) returns zero values (no test reaches it)\n"
	if diff := cmp.Diff(want, survivors); diff != "" {
		t.Errorf("survivors (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(head, "example: 13 of 16 killed (81 %), of 16 possible mutations; ") {
		t.Error(head)
	}
	for name, want := range module {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s was changed to %s, %v", name, got, err)
		}
	}
}

// The seed selects the faults: the same ones in each run, in the order of the text.
func TestSampleDependsOnSeed(t *testing.T) {
	all := make([]mutation, 100)
	for i := range all {
		all[i].at.Line = i
	}
	lines := func(seed uint64) (list []int) {
		for _, m := range sample(all, 3, seed) {
			list = append(list, m.at.Line)
		}
		return list
	}
	if cmp.Equal(lines(1), lines(2)) || !cmp.Equal(lines(1), lines(1)) || lines(1)[0] >= lines(1)[1] {
		t.Errorf("seed 1 selects %v, seed 2 %v", lines(1), lines(2))
	}
	if len(sample(all, 0, 1)) != 100 {
		t.Error("0 does not select all")
	}
}
