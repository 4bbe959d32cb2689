package master

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
)

func writeFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // independent of the umask
		t.Fatal(err)
	}
	return path
}

func TestLoadCredential(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		mode os.FileMode
		want Credential
		warn string
		err  string
	}{
		"Mesos's JSON": {text: `{"principal": "gpu", "secret": "s3 cret"}` + "\n", mode: 0o600, want: Credential{"gpu", "s3 cret"}},
		"two words":    {text: "gpu s3cret\n", mode: 0o640, want: Credential{"gpu", "s3cret"}},
		"open to all":  {text: "gpu s3cret", mode: 0o644, want: Credential{"gpu", "s3cret"}, warn: "has mode 0644"},
		"no secret":    {text: "hunter2", mode: 0o600, err: "it has 1 words, want two"},
		"empty":        {text: "", mode: 0o600, err: "it has 0 words"},
		"broken JSON":  {text: `{"principal": "gpu", "secret": "hunter2`, mode: 0o600, err: "is not JSON of the form"},
		"no principal": {text: `{"secret": "hunter2"}`, mode: 0o600, err: "has no principal"},
		"colon":        {text: "a:b hunter2", mode: 0o600, err: `principal "a:b" has a colon`},
	} {
		t.Run(name, func(t *testing.T) {
			got, warning, err := LoadCredential(writeFile(t, tt.text, tt.mode))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("error %v, want one with %q and without the secret", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want || (warning != "") != (tt.warn != "") || !strings.Contains(warning, tt.warn) {
				t.Errorf("got %q and %q, warning %q, %v", got.Principal, got.Secret, warning, err)
			}
			for _, text := range []string{fmt.Sprint(got), fmt.Sprintf("%v %+v %#v %s", got, &got, got, []Credential{got})} {
				if strings.Contains(text, "cret") {
					t.Errorf("the secret is printed: %s", text)
				}
			}
		})
	}
	if _, _, err := LoadCredential(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("read a file that is not there")
	}
}

// TestAuthentication checks that every call carries the credential, and the framework its principal.
func TestAuthentication(t *testing.T) {
	c := mesostest.NewCluster(t, 1, mesostest.WithAuth("gpu", "s3cret"))
	c.SetFile("/f", "text")
	r := startClient(t, ConnectionConfig{Master: c.URL(), Credential: Credential{"gpu", "s3cret"}})
	nextEvent[sched.Subscribed](t, r)
	if p := c.AwaitCall(t, 1, scheduler.Call_SUBSCRIBE, nil).GetSubscribe().GetFrameworkInfo().GetPrincipal(); p != "gpu" {
		t.Errorf("principal %q", p)
	}
	r.PostOperation(sched.SuppressOffers{})
	c.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)
	ctx := context.Background()
	if agents, err := r.ListAgents(ctx); err != nil || len(agents) != 1 {
		t.Errorf("agents %v, %v", agents, err)
	}
	if data, _, err := r.ReadFile(ctx, c.AgentURL(), "/f", 0, 10); err != nil || string(data) != "text" {
		t.Errorf("file %q, %v", data, err)
	}
}

// TestRefusedCredentials checks that the error names the remedy and contains no secret.
func TestRefusedCredentials(t *testing.T) {
	c := mesostest.NewCluster(t, 1, mesostest.WithAuth("gpu", "s3cret"))
	for who, want := range map[Credential]string{
		{}:                   "it requires a principal and a secret: give a credential file",
		{"gpu", "hunter2"}:   `it rejects principal "gpu" with this secret`,
		{"other", "hunter2"}: `it rejects principal "other" with this secret`,
	} {
		r := startClient(t, ConnectionConfig{Master: c.URL(), Credential: who})
		_, err := r.ListAgents(context.Background())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "401 Unauthorized") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", who, err, want)
		}
		r.stop()
	}
	if n := len(c.Calls()); n != 0 {
		t.Errorf("%d calls were taken", n)
	}
}
