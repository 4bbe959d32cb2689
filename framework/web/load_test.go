package web_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestPageIsLoadedAgainWithoutScript fails every request of a script until the page is loaded a second time.
func TestPageIsLoadedAgainWithoutScript(t *testing.T) {
	upstream := newFakeCluster(1, 3).serve(t).Config.Handler
	var loads atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			loads.Add(1)
		}
		if r.URL.Path == "/static/store.js" && loads.Load() < 2 {
			panic(http.ErrAbortHandler)
		}
		upstream.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	p := openTab(t, s.URL+"/#/jobs")
	p.awaitTrue("document.querySelectorAll('tbody tr').length === 3")
	if n := loads.Load(); n != 2 {
		t.Errorf("the page was loaded %d times, want 2", n)
	}
}
