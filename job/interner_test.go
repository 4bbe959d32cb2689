package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

// decodeCopy returns a copy of a value that shares nothing with it.
func decodeCopy[T any](t interface{ Fatal(...any) }, value T) (c T) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestInternedPartsAreShared: equal parts of two jobs are one, and different parts stay as they are.
func TestInternedPartsAreShared(t *testing.T) {
	spec := Spec{
		Name:      "train-1",
		Role:      "research",
		Image:     "registry.example.org/train:1",
		Command:   []string{"python", "train.py"},
		Request:   gpu.Request{Types: gpu.TypeSelector{Include: []string{"V100"}}},
		Env:       map[string]string{"DATA": "/data"},
		Container: Container{Labels: map[string]string{"team": "vision"}},
	}
	task := Task{ID: "train-1.0.1.x", AgentID: "agent-1", Hostname: "gpu-1", GPUTypes: map[string]int{"V100": 2}}
	var n Interner
	first, second, other := decodeCopy(t, spec), decodeCopy(t, spec), decodeCopy(t, spec)
	other.Env["DATA"], other.Command[1] = "/other", "test.py"
	for _, s := range []*Spec{&first, &second, &other} {
		n.InternSpec(s)
	}
	if unsafe.StringData(first.Image) != unsafe.StringData(second.Image) || unsafe.SliceData(first.Command) != unsafe.SliceData(second.Command) {
		t.Error("an equal image or command is not shared")
	}
	first.Env["x"], first.Labels["x"] = "shared", "shared"
	if second.Env["x"] != "shared" || second.Labels["x"] != "shared" || other.Labels["x"] != "shared" {
		t.Error("equal maps are not shared")
	}
	if other.Env["x"] != "" || other.Env["DATA"] != "/other" || other.Command[1] != "test.py" {
		t.Errorf("a different part was replaced: %v, %v", other.Env, other.Command)
	}
	one, two := decodeCopy(t, task), decodeCopy(t, task)
	n.InternTask(&one)
	n.InternTask(&two)
	one.GPUTypes["x"] = 1
	if two.GPUTypes["x"] != 1 || unsafe.StringData(one.Hostname) != unsafe.StringData(two.Hostname) {
		t.Error("equal types or hosts of tasks are not shared")
	}
}

// TestInterningChangesNoValue: whatever an Interner has seen, a specification and a task stay equal.
func TestInterningChangesNoValue(t *testing.T) {
	texts := rapid.MapOfN(rapid.SampledFrom([]string{"", "a", "b", "ab"}), rapid.SampledFrom([]string{"", "a", "b", "aa"}), 0, 3)
	list := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "ab", strings.Repeat("x", 2*maxInternedBytes)}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		var n Interner
		for i := range 30 {
			s := Spec{
				Name:      fmt.Sprint(i),
				Image:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "image"),
				Command:   list.Draw(t, "command"),
				Artifacts: list.Draw(t, "artifacts"),
				Env:       texts.Draw(t, "env"),
				Container: Container{Labels: texts.Draw(t, "labels")},
			}
			task := Task{ID: s.Name, Hostname: s.Image, GPUTypes: map[string]int{}}
			for name := range s.Env {
				task.GPUTypes[name] = len(s.Labels)
			}
			want, wantTask := decodeCopy(t, s), task
			wantTask.GPUTypes = maps.Clone(task.GPUTypes)
			n.InternSpec(&s)
			n.InternTask(&task)
			if diff := cmp.Diff(want, decodeCopy(t, s)) + cmp.Diff(wantTask, task); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestInternerIsBounded: parts that never occur again do not accumulate.
func TestInternerIsBounded(t *testing.T) {
	var n Interner
	for i := range 5 * maxInterned {
		s := Spec{Image: fmt.Sprint(i), Command: []string{fmt.Sprint(i)}, Env: map[string]string{"I": fmt.Sprint(i)}}
		n.InternSpec(&s)
		if len(n.texts) > maxInterned || len(n.lists) > maxInterned || len(n.textMaps) > maxInterned {
			t.Fatalf("%d texts, %d lists and %d maps are kept", len(n.texts), len(n.lists), len(n.textMaps))
		}
	}
}
