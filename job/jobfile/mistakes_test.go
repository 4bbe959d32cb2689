package jobfile

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/job"
)

// mistakesOf returns the lines of the error for a file.
func mistakesOf(t *testing.T, file string) []string {
	t.Helper()
	_, err := Read(strings.NewReader(file), "f.yaml")
	if err == nil {
		t.Fatal("the file was read")
	}
	return strings.Split(err.Error(), "\n")
}

// TestReadReportsEveryMistake checks that values which cannot be read and values which no job may have are reported
// together, in the order of the file.
func TestReadReportsEveryMistake(t *testing.T) {
	got := mistakesOf(t, `name: a b
gpus: -1
mem: lots
retries: -1
env:
  "A=B": 1
gpu_topology: ring
parameters: [init=true, privileged=true, {key: cap-add, value: SYS_ADMIN}]
image: debian:12
health_check:
  - http: /
  - {tcp: 80, failures: 5000}
schedule: {cron: 0 3 * *}
foo: 1
`)
	want := []string{
		`f.yaml:1:7: name "a b": use 1 to 63 letters`,
		`f.yaml:2:7: gpus: -1 is not between 0 and 1024`,
		`f.yaml:3:6: mem: "lots" is not a size`,
		`f.yaml:4:10: retries: -1 is not between 0 and 1000`,
		`f.yaml:6:10: env: "A=B" is not a variable's name`,
		`f.yaml:7:15: gpu_topology: "ring" is not one of`,
		`f.yaml:8:25: parameters: item 2: "privileged" is not served: served are add-host, `,
		`f.yaml:8:42: parameters: item 3: "cap-add=SYS_ADMIN": this capability may open every GPU`,
		`f.yaml:11:11: health_check: item 1: http: port_index 0, and the job has 0 ports`,
		`f.yaml:12:25: health_check: item 2: failures: 5000 is not between 1 and 1000`,
		`f.yaml:13:18: schedule: cron "0 3 * *": `,
		`f.yaml:14:1: unknown key "foo": see mesos-gpu explain`,
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			t.Errorf("unexpected: %s", got[i])
		case i >= len(got) || !strings.HasPrefix(got[i], want[i]):
			t.Errorf("%d: got %q, want %s…", i, got[i:min(i+1, len(got))], want[i])
		}
	}
}

// TestEachMistakeIsReportedOnce checks that consequences of another mistake are not reported.
func TestEachMistakeIsReportedOnce(t *testing.T) {
	for _, file := range []string{
		"name: a\ncomand: ls\n",    // the job then has no command
		"name: [a]\ncommand: ls\n", // the job then has no name
		"name: a\nports: many\nhealth_check: {http: /}\ncommand: serve\n", // the job then has no ports to check
		"name: a\ngpus: half\ngpu_type: V100\ncommand: ls\n",
		"name: a\nimages: debian\ncontainer: docker\n",
		"name: a\nmem: 8gb\nshm_size: 1GiB\nimage: debian\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n---\napiVersion: v1\n",
	} {
		if got := mistakesOf(t, file); len(got) != 1 {
			t.Errorf("of\n%sgot\n%s", file, strings.Join(got, "\n"))
		}
	}
}

// TestMistakesOfLongListAreBounded checks that a list reports as many mistakes as a mapping does, and how many more
// there are.
func TestMistakesOfLongListAreBounded(t *testing.T) {
	got := mistakesOf(t, head+"labels:\n"+labels(50))
	if n := len(got); n != maxMistakes+1 || got[n-1] != "f.yaml: 30 more mistakes: fix the others first" {
		t.Errorf("%d lines, the last %q", n, got[n-1])
	}
}

// labels returns n labels, for more than a job may have.
func labels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  mesos-gpu.%d: x\n", i)
	}
	return b.String()
}

// TestSuggestions checks the question for an unknown key. An empty text means no suggestion.
func TestSuggestions(t *testing.T) {
	for lines, want := range map[string]string{
		"memory: 4GiB":                     `did you mean "mem"?`,
		"GPUs: 1":                          `did you mean "gpus"?`,
		"gpu: 1":                           `did you mean "gpus"?`,
		"cpu: 1":                           `did you mean "cpus"?`,
		"gpsu: 1":                          `did you mean "gpus"?`,
		"killGrace: 5s":                    `did you mean "kill_grace"?`,
		"shm-size: 1GiB":                   `did you mean "shm_size"?`,
		"replicas: 2":                      `did you mean "tasks"?`,
		"environment: {}":                  `did you mean "env"?`,
		"depends_on: [b]":                  `did you mean "after"?`,
		"ntasks: 2":                        `did you mean "tasks"?`,
		"nodes: 2":                         `did you mean "tasks"?`,
		"ntasks_per_node: 4":               `did you mean "gpus"?`,
		"time: 1h":                         `did you mean "timeout"?`,
		"partition: research":              `did you mean "role"?`,
		"restart: always":                  `did you mean "service"?`,
		"share: {mem: 4GiB}":               `share: unknown key "mem"; did you mean "memory"?`,
		"limits: {memory: 4GiB}":           `limits: unknown key "memory"; did you mean "mem"?`,
		"fetch: [{url: /a}]":               `did you mean "uri"?`,
		`volumes: [{src: /a, target: /b}]`: `did you mean "source"?`,
		"cwd: /tmp":                        `did you mean "workdir"?`,
		"hostname: web":                    `as an option of docker run it is one of parameters: ["hostname=…"]`,
		"spec: {}":                         `unknown key "spec": see mesos-gpu explain`,
		"metadata: {}":                     `unknown key "metadata": see mesos-gpu explain`,
		strings.Repeat("k", 1000) + ": 1":  `k": see mesos-gpu explain`,
	} {
		if got := strings.Join(mistakesOf(t, head+lines), "\n"); !strings.Contains(got, want) {
			t.Errorf("%.40s: got %.300s\nwant …%s", lines, got, want)
		}
	}
}

// TestSynonymsReferToExistingKeys checks that each synonym stands for an existing key, and that no synonym stands for
// two outer keys.
func TestSynonymsReferToExistingKeys(t *testing.T) {
	here := map[string]bool{}
	for _, k := range Keys() {
		here[k.Name] = true
		for _, p := range k.Parts {
			here[p] = true
		}
	}
	for key, words := range keySynonyms() {
		if !here[key] {
			t.Errorf("%s is no key", key)
		}
		for _, w := range words {
			if w != normalizeWord(w, "") {
				t.Errorf("%s: %q is never looked for: write %q", key, w, normalizeWord(w, ""))
			}
		}
	}
	owner := map[string]string{}
	for _, k := range Keys() {
		for _, w := range keySynonyms()[k.Name] {
			if other := owner[w]; other != "" {
				t.Errorf("%q stands for %s and %s", w, other, k.Name)
			}
			owner[w] = k.Name
		}
	}
}

// TestUnknownKeysListIsPrintedOnce checks that a file with several unknown keys lists the known ones once.
func TestUnknownKeysListIsPrintedOnce(t *testing.T) {
	got := mistakesOf(t, head+"limits: {xylophone: 1, quux: 2}\nshare: {zzzzzz: 1}\n")
	want := []bool{true, false, true} // the keys of share are others
	var lists []bool
	for _, line := range got {
		lists = append(lists, strings.Contains(line, "the keys are"))
	}
	if diff := cmp.Diff(want, lists); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, strings.Join(got, "\n"))
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]string{
		"8gb": "write 8GB or 8GiB", "8G": "write 8GB or 8GiB", "1.5 t": "write 1.5TB or 1.5TiB", "512m": "write 512MB or 512MiB",
		"8Gi": "write 8GiB", "8 gib": "write 8GiB", "64k": "write 64KiB", "64KB": "write 64KiB",
		"0gb": "such as 512MiB or 4GiB", "lots": "such as 512MiB or 4GiB", "8 apples": "such as 512MiB or 4GiB", "g": "such as 512MiB or 4GiB",
	} {
		if _, err := ParseSize(text); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want …%s", text, err, want)
		}
	}
	// The suggested sizes are accepted.
	for _, text := range []string{"8GB", "8GiB", "1.5TB", "1.5TiB", "64KiB"} {
		if _, err := ParseSize(text); err != nil {
			t.Error(err)
		}
	}
}

// TestFractionOfGPUSuggestsShare checks that the error for half a GPU explains share.
func TestFractionOfGPUSuggestsShare(t *testing.T) {
	got := mistakesOf(t, head+"gpus: 0.5\n")
	if want := "f.yaml:4:7: gpus: 0.5 is not a whole number: use 1, or for a part of one share: {memory: 50%}"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if spec, err := Read(strings.NewReader(head+"share: {memory: 50%}\n"), "f"); err != nil || spec.Request.Share.MemPercent != 50 {
		t.Errorf("as it says: %+v, %v", spec, err)
	}
}

// TestFieldErrorsNameKeys checks that the outermost keys in the paths of job.FieldErrors
// are keys of job files.
func TestFieldErrorsNameKeys(t *testing.T) {
	known := map[string]bool{}
	for _, k := range Keys() {
		known[k.Name] = true
	}
	files, err := filepath.Glob(filepath.Join("..", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`\bfield\("(\w+)"[^)]*\)(?:\.and\(([^)]*)\))?`).FindAllStringSubmatch(string(text), -1) {
			for _, key := range regexp.MustCompile(`\w+`).FindAllString(call[1]+" "+call[2], -1) {
				checked++
				if !known[key] {
					t.Errorf("%s: %s: %q is no key", file, call[0], key)
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("found only %d paths: the pattern is broken", checked)
	}
}

// TestFindField checks which place a field gets whose keys are in the file in part, or not at all.
func TestFindField(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte("name: a\nservice:\n  max: 3\nhealth_check: {tcp: 80}\nnotify: [{to: x}]\n"), &doc); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path job.FieldPath
		line int // 0 if it has no place
	}{
		{job.FieldPath{"name"}, 1},
		{job.FieldPath{"service", "max"}, 3},
		{job.FieldPath{"service", "min"}, 3},
		{job.FieldPath{"health_check", 0, "tcp"}, 4},
		{job.FieldPath{"notify", 0, "to"}, 5},
		{job.FieldPath{"notify", 7, "to"}, 5},
		{job.FieldPath{"schedule"}, 0},
		{job.FieldPath{"schedule", "cron"}, 0},
		{job.FieldPath{"ports", 0}, 0},
	} {
		line := 0
		if n := findField(doc.Content[0], c.path); n != nil {
			line = n.Line
		}
		if line != c.line {
			t.Errorf("%s has line %d, want %d", c.path, line, c.line)
		}
	}
}

// TestWorkOnHostileTextsIsBounded: a text of an eighth of the largest size is refused within a second of CPU time, however it is built
// and wherever its mistake is: the work grows with its length, and not with the square.
func TestWorkOnHostileTextsIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"nested lists": "[", "nested lists with spaces": "[ ", "nested mappings": "{a: ", "nested sequences": "- ", "nested keys": "? ",
		"anchors": "&a ", "one long line": "a", "comments that close": "[ # ]\n", "directives": "%YAML 1.1\n", "escapes": `"\"`,
		"quotes after brackets": `["" , `, "quotes after spaces": `[          "`, "wide characters": "[ä",
		"words below nested sequences": "\n a",
	} {
		start := "name: "
		if name == "words below nested sequences" {
			start = strings.Repeat("- ", MaxSize/16)
		}
		for _, end := range []string{"\x00", "\n]", "\n\t: ]"} {
			hostile := start + strings.Repeat(text, MaxSize/8/len(text)) + end
			before := cputime.Read(t)
			if _, err := Read(strings.NewReader(hostile), "job.yaml"); err == nil {
				t.Errorf("%s before %q: it is accepted", name, end)
			}
			if took := cputime.Read(t) - before; took > time.Second {
				t.Errorf("%s before %q: %s of CPU time for %d bytes", name, end, took, len(hostile))
			}
		}
	}
}
