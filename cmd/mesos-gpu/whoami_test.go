package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWhoAmI: the user, and the roles of each permission, the highest first. A requester whom the scheduler does not know is an
// error that says what to do.
func TestWhoAmI(t *testing.T) {
	for answer, want := range map[string]commandRun{
		`{"user": "ada", "authenticated": true, "access_control": true, "permissions": [{"permission": "view", "roles": ["research", "prod"]},
			{"permission": "submit", "roles": ["research"]}, {"permission": "submit", "roles": ["guests"]}]}`: {
			out: "ada at SCHEDULER\nsubmit   guests, research\nview     prod, research\n",
		},
		`{"user": "op", "authenticated": true, "access_control": true, "permissions": [{"permission": "admin", "roles": ["/"]}]}`: {
			out: "op at SCHEDULER\nadmin    all roles\n",
		},
		`{"user": "eve", "authenticated": true, "access_control": true, "permissions": []}`: {
			out: "eve at SCHEDULER\nno permission on any role: the operator's access file gives some\n",
		},
		`{"user": "", "authenticated": true, "access_control": false, "permissions": [{"permission": "admin", "roles": ["/"]}]}`: {
			out: "the scheduler at SCHEDULER has no access file: it knows no users, and everybody may do everything\n",
		},
		`{"user": "", "authenticated": false, "access_control": true, "permissions": []}`: {
			err:    "mesos-gpu: the scheduler at SCHEDULER does not know you: name a token by --token-file, MESOS_GPU_TOKEN_FILE or MESOS_GPU_TOKEN\n",
			status: 1,
		},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/whoami" {
				t.Errorf("asked for %s", r.URL)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer))
		}))
		t.Cleanup(s.Close)
		hide := strings.NewReplacer(s.URL, "SCHEDULER")
		got := commandAt(t, s.URL, "whoami")
		if got.out, got.err = hide.Replace(got.out), hide.Replace(got.err); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", answer, got, want)
		}
	}
}
