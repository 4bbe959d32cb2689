package api

import (
	"testing"

	"mesos-gpu/marathon"
)

func TestLabelSelector(t *testing.T) {
	app := &marathon.App{ID: "/a", Labels: map[string]string{"tier": "front", "env": "production", "!!!": "&", "plugin": "x", "empty": ""}}
	for text, want := range map[string]bool{
		"":                               true,
		"  ":                             true,
		"tier":                           true,
		"none":                           false,
		"tier==front":                    true,
		"tier == back":                   false,
		"tier!=back":                     true,
		"none != back":                   false, // an app without the label never matches
		"env in (production, qa)":        true,
		"env in (qa)":                    false,
		"env in ()":                      false,
		"env notin (qa)":                 true,
		"env notin ()":                   true,
		"env notin (qa,production)":      false,
		"none notin (qa)":                false,
		"tier,env":                       true,
		"tier , env == qa":               false,
		"env in (production), tier, env": true,
		`\!\!\! == \&`:                   true,
		`\!\!\! in (\-, \&)`:             true,
		"plugin":                         true,
	} {
		s, err := parseLabelSelector(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s(app); got != want {
			t.Errorf("%q selects the app: got %t, want %t", text, got, want)
		}
	}
}

func TestLabelSelectorRejects(t *testing.T) {
	for _, text := range []string{
		"tier=front", "tier ==", "== front", "env in production", "env in (a", "a,,b", ",a", "a b", "!a", "a,",
		"plugin(a)", "a == b == c",
	} {
		if _, err := parseLabelSelector(text); err == nil {
			t.Errorf("%q is taken for a label selector", text)
		}
	}
}
