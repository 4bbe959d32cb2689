package tap

import (
	"net/http"
	"net/http/httptest"
)

// Forward is what happens without a fault.
func Forward(w http.ResponseWriter, r *http.Request, master http.Handler) { master.ServeHTTP(w, r) }

// Answer gives a call an HTTP status and a text. The master hears nothing.
func Answer(status int, text string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text)) // the caller may be gone
	}
}

// NotSubscribed is the answer of a master to which the framework is a
// stranger.
func NotSubscribed() Fault { return Answer(http.StatusForbidden, "Framework is not subscribed") }

// Swallow takes a call and does nothing about it.
func Swallow() Fault { return Answer(http.StatusAccepted, "") }

// Overloaded is the answer of a master that is not ready for calls.
func Overloaded() Fault { return Answer(http.StatusServiceUnavailable, "Service Unavailable") }

// Redirect says that the master at url, http://HOST:PORT, leads.
func Redirect(url string) Fault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Location", url+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// Hang never answers; the caller goes away some time.
func Hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// Drop closes the connection instead of an answer. The master hears nothing.
func Drop(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// Lose has the master do what it was asked, and closes the connection instead
// of its answer.
func Lose(_ http.ResponseWriter, r *http.Request, master http.Handler) {
	master.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// After does something first: what happens elsewhere while the call is on its
// way.
func After(first func(), then Fault) Fault {
	return func(w http.ResponseWriter, r *http.Request, master http.Handler) {
		first()
		then(w, r, master)
	}
}
