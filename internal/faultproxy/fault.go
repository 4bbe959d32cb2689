package faultproxy

import (
	"net/http"
	"net/http/httptest"
)

// ForwardCall is what happens without a fault.
func ForwardCall(w http.ResponseWriter, r *http.Request, master http.Handler) { master.ServeHTTP(w, r) }

// AnswerStatus gives a call an HTTP status and a text. The master hears nothing.
func AnswerStatus(status int, text string) CallFault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text)) // the caller may be gone
	}
}

// NotSubscribed is the answer of a master to which the framework is a
// stranger.
func NotSubscribed() CallFault {
	return AnswerStatus(http.StatusForbidden, "Framework is not subscribed")
}

// IgnoreCall takes a call and does nothing about it.
func IgnoreCall() CallFault { return AnswerStatus(http.StatusAccepted, "") }

// AnswerOverloaded is the answer of a master that is not ready for calls.
func AnswerOverloaded() CallFault {
	return AnswerStatus(http.StatusServiceUnavailable, "Service Unavailable")
}

// RedirectTo says that the master at url, http://HOST:PORT, leads.
func RedirectTo(url string) CallFault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Location", url+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// NeverAnswer never answers; the caller goes away some time.
func NeverAnswer(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// DropConnection closes the connection instead of an answer. The master hears nothing.
func DropConnection(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// LoseAnswer has the master do what it was asked, and closes the connection instead
// of its answer.
func LoseAnswer(_ http.ResponseWriter, r *http.Request, master http.Handler) {
	master.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// RunFirst does something first: what happens elsewhere while the call is on its
// way.
func RunFirst(first func(), then CallFault) CallFault {
	return func(w http.ResponseWriter, r *http.Request, master http.Handler) {
		first()
		then(w, r, master)
	}
}
