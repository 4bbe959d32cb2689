package control

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// TestChangesNameTheirUsers checks that the changes of jobs that a request causes have its user, also those that its deployment
// makes later.
func TestChangesNameTheirUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user := "ada"
		f := newFakeCluster()
		s := startControllerWith(t, f, ControllerConfig{Log: discardLogger(), UserOf: func(context.Context) string { return user }})
		synctest.Wait()
		s.createApp("one", "1")
		request := func(by, method, path, body string, want ...string) {
			t.Helper()
			user = by
			f.denyCalls(nil)
			s.mustSend(method, path, body)
			for _, w := range want {
				if !slices.ContainsFunc(f.calls, func(call string) bool { return strings.HasPrefix(call, w) && strings.HasSuffix(call, " by "+by) }) {
					t.Errorf("%s %s by %s: no call %q in %q", method, path, by, w, f.calls)
				}
			}
		}
		request("ada", "PUT", web, `{"instances": 3}`, "scale ")
		request("bob", "PUT", web, `{"instances": 1}`, "stop 2 true")
		request("eve", "PUT", web, `{"cmd": "two"}`, "stop 1 true")
		var got struct {
			App struct{ Tasks []struct{ ID string } }
		}
		if s.sendRequest("GET", web, "", &got); len(got.App.Tasks) != 1 {
			t.Fatalf("%d tasks run, want 1", len(got.App.Tasks))
		}
		request("ada", "POST", "/v2/tasks/delete", `{"ids": ["`+got.App.Tasks[0].ID+`"]}`, "stop 1 false")
		request("bob", "DELETE", web, "", "kill ")
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}
