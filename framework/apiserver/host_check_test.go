package apiserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mesos-gpu/framework/internal/apihttp"
)

// TestRestrictHosts checks that a DNS name of another site that resolves to this machine is
// rejected, although the browser treats the request as same-origin.
func TestRestrictHosts(t *testing.T) {
	taken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	h := RestrictHosts(RejectCrossOrigin(taken, discardLogger()), discardLogger(), "s1", "gpu.example.org")
	for host, want := range map[string]int{
		"127.0.0.1:8080":              202,
		"10.0.0.7":                    202,
		"[::1]:8080":                  202,
		"localhost:8080":              202,
		"LocalHost":                   202,
		"s1:8080":                     202,
		"gpu.example.org.":            202,
		"":                            202, // HTTP/1.0, which no browser uses
		"evil.example:8080":           403,
		"evil.example":                403,
		"localhost.evil.example":      403,
		"s1.evil.example":             403,
		"127.0.0.1.evil.example:8080": 403,
		"127.0.0.1:8080@evil.example": 403,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/jobs", nil)
		r.Host = host
		r.Header.Set("Origin", "http://"+host)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want || want == 403 && (w.Header().Get("Content-Type") != apihttp.ProblemMediaType || !strings.Contains(w.Body.String(), "--advertise-url")) {
			t.Errorf("%q: %d, want %d: %s", host, w.Code, want, w.Body)
		}
	}
	for path, want := range map[string]int{
		"/metrics":            202,
		"/healthz":            202,
		"/readyz":             202,
		"/v1/openapi.yaml":    202,
		"/v1/jobs":            403,
		"/metrics/../v1/jobs": 403,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Host = "monitored.example:8080"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s by a monitor's name: %d, want %d", path, w.Code, want)
		}
	}
}
