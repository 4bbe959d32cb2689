package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// newThousandApps returns definitions of a thousand apps with ten instances each.
func newThousandApps() string {
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf(`{"id": "/team%d/web%d", "cmd": "serve", "instances": 10, "labels": {"tier": "front"}, "healthChecks": [{"protocol": "HTTP", "path": "/"}]}`,
			i%20, i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func benchmarkRequest(b *testing.B, method, path, body string) {
	f := newFakeService(b)
	h := NewHandler(f, f.bus, nil)
	send := func(method, path, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		if w.Code != http.StatusOK {
			b.Fatalf("%s %s: got status %d: %s", method, path, w.Code, w.Body)
		}
	}
	send(http.MethodPut, "/v2/apps", newThousandApps())
	for b.Loop() {
		send(method, path, body)
	}
}

func BenchmarkList(b *testing.B) {
	benchmarkRequest(b, http.MethodGet, "/v2/apps?embed=apps.tasks", "")
}
func BenchmarkShow(b *testing.B)  { benchmarkRequest(b, http.MethodGet, "/v2/apps/team1/web1", "") }
func BenchmarkMerge(b *testing.B) { benchmarkRequest(b, http.MethodPut, "/v2/apps", newThousandApps()) }
