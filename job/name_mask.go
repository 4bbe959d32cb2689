package job

import "strings"

// AnotherJob, AnotherTask and AnotherRole replace names that a reader may not see. No job, task or role has such a name.
const (
	AnotherJob  = "another job"
	AnotherTask = "another task"
	AnotherRole = "another role"
)

// NameMask replaces the names of jobs, tasks and roles that a reader may not see in reasons and messages. These name what
// goes first, what holds a device, and for what a task was stopped. The nil mask replaces nothing.
type NameMask struct {
	// RoleOf returns the role of a job; false for a job that is not known, which the reader may not see either.
	RoleOf func(name string) (role string, known bool)
	// SeesRole reports whether the reader may see the jobs of a role, KnowsRole whether texts may name the role.
	SeesRole, KnowsRole func(role string) bool
}

// MaskTask masks who stopped a task, and its message.
func (m *NameMask) MaskTask(t *Task) {
	if m == nil {
		return
	}
	if t.KillReason == KillByPreemption && t.KilledBy != "" && !m.seesJob(t.KilledBy) {
		t.KilledBy = AnotherJob
	}
	t.Message = m.MaskText(t.Message)
}

// MaskTasks returns tasks with masked names. It copies them, unless nothing is masked.
func (m *NameMask) MaskTasks(tasks []Task) []Task {
	if m == nil {
		return tasks
	}
	masked := append([]Task(nil), tasks...)
	for i := range masked {
		m.MaskTask(&masked[i])
	}
	return masked
}

func (m *NameMask) seesJob(name string) bool {
	role, known := m.RoleOf(name)
	return known && m.SeesRole(role)
}

// MaskText masks the names in a text of the scheduler. Names stand where the scheduler's sentences have them, so that a job
// whose name is an ordinary word changes no other text.
func (m *NameMask) MaskText(text string) string {
	if m == nil || text == "" {
		return text
	}
	words, changed := strings.Split(text, " "), false
	for i := range words {
		before, name, after := splitPunctuation(words[i])
		previous := wordAt(words, i-1)
		replacement := ""
		switch {
		case name == "":
		case previous == "role":
			if !followsArticle(words, i-1) && !m.KnowsRole(name) {
				replacement = AnotherRole
			}
		case previous == "task":
			if of, _, _, ok := ParseTaskID(name); ok && !m.seesJob(of) {
				replacement = AnotherTask
			}
		case namesJob(words, i):
			role, known := m.RoleOf(name)
			if known && !m.SeesRole(role) || !known && previous == "for" && wordAt(words, i-2) == "room" && wordAt(words, i-3) == "makes" {
				replacement = AnotherJob
			}
		}
		if replacement == "" {
			continue
		}
		changed = true
		words[i] = before + replacement + after
		if strings.HasSuffix(replacement, " "+previous) { // not "role another role"
			words[i-1] = ""
		}
	}
	if !changed {
		return text
	}
	kept := words[:0]
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// namesJob reports whether a word of a text stands where the scheduler's sentences name a job.
func namesJob(words []string, i int) bool {
	switch wordAt(words, i-1) {
	case "for", "that", "job":
		return true
	}
	return wordAt(words, i+1) == "goes" && wordAt(words, i+2) == "first"
}

// followsArticle reports whether the word "role" at i is not followed by a name: "whose role deserves them".
func followsArticle(words []string, i int) bool {
	switch wordAt(words, i-1) {
	case "whose", "other", "its", "the", "their", "each", "this", "another":
		return true
	}
	return false
}

// wordAt returns a word without the punctuation around it, "" outside of the text.
func wordAt(words []string, i int) string {
	if i < 0 || i >= len(words) {
		return ""
	}
	_, word, _ := splitPunctuation(words[i])
	return word
}

// splitPunctuation splits a word from the punctuation around it. A name may contain dots, and does not end with one in the
// scheduler's sentences.
func splitPunctuation(word string) (before, core, after string) {
	core = strings.TrimLeft(word, `("`)
	before = word[:len(word)-len(core)]
	trimmed := strings.TrimRight(core, `,;:.)"`)
	return before, trimmed, core[len(trimmed):]
}
