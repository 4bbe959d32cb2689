package jobfile

import (
	"strings"
	"testing"
)

// syntaxMistakes are texts that are not YAML, and the errors about them.
var syntaxMistakes = []struct{ name, file, want string }{
	{"tab", "name: a\nenv:\n\tA: 1\n", "3:1: a tab in the indentation: replace it by spaces"},
	{"tab after spaces", "name: a\nenv:\n  \tA: 1\n", "3:3: a tab in the indentation"},
	{"tab after a value", "name: a\n\tcommand: ls\n", "2:1: a tab in the indentation"},
	{"one space too many", "name: a\n command: ls\n", "2:2: indented by 1 space, more than line 1, which has a value already: use 0"},
	{"inner space too many", "env:\n  A: 1\n   B: 2\n", "3:4: indented by 3 spaces, more than line 2, which has a value already: use 2"},
	{"between two levels", "name: a\nenv:\n    A: 1\n  B: 2\n", "4:3: indented by 2 spaces: use 0 as line 1, or 4 as line 3"},
	{"first line indented", "  name: a\ncommand: ls\n", "2:1: indented by 0 spaces, and line 1 before it by 2: indent both alike"},
	{"item between two levels", "volumes:\n    - source: /a\n      target: /a\n  - source: /b\n", "4:3: indented by 2 spaces: use 0 as line 1, or 4 as line 2"},
	{"colon in a value", "name: a\nlabels:\n  note: key: value\n", "3:12: a colon within the value: put the value in quotes"},
	{"colon in a command", "name: a\ncommand: echo ä: b # x: y\n", "2:16: a colon within the value: put the value in quotes"},
	{"colon in an item", "volumes:\n- source: a: b\n", "2:12: a colon within the value"},
	{"open bracket", "name: a\ncommand: [ls, -l\nmem: 1GiB\n", "2:10: the [ is not closed"},
	{"open brace", "name: a\nshare: {memory: 1GiB\n", "2:8: the { is not closed"},
	{"wrong bracket", "name: a\nports: [1}\n", "2:10: the [ of line 2 is closed by }"},
	{"open quote", "name: a\ncommand: \"ls\nmem: 1GiB\n", `2:10: the " is not closed`},
	{"quote that ends too early", "name: a\ncommand: \"ls\" -l\n", `2:15: text after the " that ends the value of line 2: put the whole value in quotes`},
	{"quote that ends at the next", "name: a\ncommand: \"ls\nuser: \"b\"\n", `3:8: text after the " that ends the value of line 2`},
	{"at sign", "name: a\ncommand: @x\n", "2:10: a value cannot start with @: put it in quotes"},
	{"star", "name: a\nartifacts:\n- *.pt\n", "3:3: a value cannot start with *: put it in quotes"},
	{"percent", "command: %x\n", "1:10: a value cannot start with %: put it in quotes"},
	{"backquote", "command: `ls`\n", "1:10: a value cannot start with `: put it in quotes"},
	{"no space", "name:a\ncommand: ls\n", "1:6: a space is missing after the colon"},
	{"no colon", "name: a\ngpus 2\ncommand: ls\n", `2:1: "gpus" has no colon: write KEY: VALUE`},
	{"second document", "name: a\n---\nname: b\n\tmem: 1\n", "4:1: a tab in the indentation"},
	{"windows lines", "name: a\r\n gpus: 1\r\n", "2:2: indented by 1 space"},
	{"unknown mistake", "a: &x 1\n? &y [b] : &\n", "2: "},
}

func TestSyntaxMistakes(t *testing.T) {
	for _, c := range syntaxMistakes {
		if got := mistakesOf(t, c.file); len(got) != 1 || !strings.HasPrefix(got[0], "f.yaml:"+c.want) {
			t.Errorf("%s: got %q, want %s…", c.name, got, c.want)
		}
	}
}

// TestLayoutAcceptsYAML checks that no mistake is found in what the YAML library accepts, so that the one that is
// reported is the right one.
func TestLayoutAcceptsYAML(t *testing.T) {
	files := acceptedFiles(t)
	files["several forms"] = `%YAML 1.1
---
# comment: with colon
name: a   # note: x
"quoted": 'it''s: one'
'other': "a \" b: c" # d
command: |
  if true; then
  	echo "tab: and colon
   fi
env:
    A: echo http://x:80 a:b
    B: >-
      folded: text
    C: several
      lines of text
volumes:
- source: /a
  target: /b
-
  source: /c
- - nested
  - [flow, {a: "b,]"},
     it's, more] # end
list: ["a: b", 'c
  d']
...
`
	for name, text := range files {
		if _, err := decodeDocuments([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var l layout
		if err := l.check(text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func FuzzLayout(f *testing.F) {
	for _, c := range syntaxMistakes {
		f.Add(c.file)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		var l layout
		_ = l.check(text) // does not panic
	})
}

// TestForeignFiles checks that files of other systems are recognized, and lead to a job file.
func TestForeignFiles(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{
			"job.sh", "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --gres=gpu:a100:2 -N 1\n#SBATCH -t 1-00:00:00\n#SBATCH --mem 64G\nmodule load cuda\n./train\n",
			"job.sh: this is a script, not a job file: mesos-gpu run -w . --name train --gpus 2 --gpu-type a100 --timeout 1-00:00:00 --mem 64GiB -- bash job.sh",
		},
		{"d/job.sh", "#SBATCH --time=90\n#SBATCH -G 4\n#SBATCH -c 8\n#SBATCH -n 2\n", "mesos-gpu run -w d/ --timeout 90m --gpus 4 --cpus 8 --tasks 2 -- bash job.sh"},
		{"standard input", "#SBATCH --time 10:30\n#SBATCH --requeue\na: b\n", "mesos-gpu run -w . --timeout 00:10:30 -- bash job.sh"},
		{"plain.sh", "#!/bin/sh\nif [ a\n", "plain.sh: this is a script, not a job file: mesos-gpu run -w . -- bash plain.sh"},
		{
			"compose.yaml", "version: '3'\nservices:\n  web: {image: nginx}\n  db: {image: postgres}\n",
			"compose.yaml:3:3: this is a compose file: write a job for each service (web, db), with",
		},
		{"app.json", `{"id": "/web", "cmd": "serve", "instances": 2}`, "app.json:1:1: this is an app of Marathon: mesos-gpu marathon translate"},
		{"pod.yaml", "apiVersion: v1\nkind: Pod\n", "pod.yaml:2:7: this is a manifest of Kubernetes, of the kind Pod: a job file has the container's image"},
	} {
		if _, err := Read(strings.NewReader(c.file), c.name); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v\nwant …%s…", c.name, err, c.want)
		}
	}
	if _, err := Read(strings.NewReader("#!/usr/bin/env -S mesos-gpu submit\n"+head), "job.yaml"); err != nil {
		t.Errorf("a job file that can be executed: %v", err)
	}
}
