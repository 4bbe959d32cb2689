package apiserver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

func (f *fakeBackend) ListNotifications(context.Context) ([]api.NotificationView, error) {
	return []api.NotificationView{
		{ID: "n1", To: "mailto:a@example.org", Event: job.NotifyEnd, Job: "train", Role: "research", Owner: "owner", State: api.NotificationPending},
		{ID: "n2", To: "https://example.org/…", Event: job.NotifyFailure, Job: "serve", Role: "prod", State: api.NotificationFailed},
	}, f.err
}

func (f *fakeBackend) RetryNotification(_ context.Context, id string) error {
	f.did = "retry " + id
	return f.err
}

func (f *fakeBackend) DropNotification(_ context.Context, id string) error {
	f.did = "drop " + id
	return f.err
}

// TestListedNotificationsAreVisible: a requester sees and changes the notifications of the roles whose jobs it sees.
func TestListedNotificationsAreVisible(t *testing.T) {
	url := serveWithPolicy(t, &fakeBackend{}, rolePolicy())
	for _, c := range []struct{ who, query, want string }{
		{"viewer", "", "n1"}, {"stranger", "", "n2"}, {"root", "", "n1 n2"},
		{"root", "?state=failed", "n2"}, {"root", "?state=pending&job=serve", ""}, {"root", "?job=train", "n1"},
	} {
		_, _, body := sendRequest(t, http.MethodGet, url+"/v1/notifications"+c.query, "", "Who", c.who)
		var got []string
		for _, id := range []string{"n1", "n2"} {
			if strings.Contains(body, `"id":"`+id+`"`) {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s%s sees %v, want %s: %s", c.who, c.query, got, c.want, body)
		}
	}
	if status, _, _ := sendRequest(t, http.MethodGet, url+"/v1/notifications?state=lost", "", "Who", "root"); status != http.StatusBadRequest {
		t.Errorf("an unknown state: %d", status)
	}
	for _, c := range []struct{ method, path, did string }{
		{http.MethodPost, "/v1/notifications/n2/retry", "retry n2"}, {http.MethodDelete, "/v1/notifications/n1", "drop n1"},
	} {
		f := &fakeBackend{}
		if status, _, body := sendRequest(t, c.method, serveBackend(t, f).URL+c.path, ""); status != http.StatusAccepted || f.did != c.did {
			t.Errorf("%s %s: %d, did %q: %s", c.method, c.path, status, f.did, body)
		}
	}
}
