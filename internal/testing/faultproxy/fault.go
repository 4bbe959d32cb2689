package faultproxy

import (
	"net/http"
	"net/http/httptest"
)

// ForwardCall forwards a call without a fault.
func ForwardCall(w http.ResponseWriter, r *http.Request, master http.Handler) { master.ServeHTTP(w, r) }

// AnswerStatus answers a call with an HTTP status and a text, without
// forwarding it.
func AnswerStatus(status int, text string) CallFault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text)) // the caller may have disconnected
	}
}

// NotSubscribed is the answer of a master that does not know the framework.
func NotSubscribed() CallFault {
	return AnswerStatus(http.StatusForbidden, "Framework is not subscribed")
}

// IgnoreCall accepts a call without forwarding it.
func IgnoreCall() CallFault { return AnswerStatus(http.StatusAccepted, "") }

// AnswerOverloaded is the answer of a master that is not ready for calls.
func AnswerOverloaded() CallFault {
	return AnswerStatus(http.StatusServiceUnavailable, "Service Unavailable")
}

// RedirectTo redirects to the leading master at url, http://HOST:PORT.
func RedirectTo(url string) CallFault {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.Header().Set("Location", url+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// NeverAnswer does not answer before the caller disconnects.
func NeverAnswer(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// DropConnection closes the connection without forwarding the call.
func DropConnection(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// LoseAnswer forwards the call and closes the connection instead of returning
// the master's answer.
func LoseAnswer(_ http.ResponseWriter, r *http.Request, master http.Handler) {
	master.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// RunFirst calls first before the fault then. It simulates a concurrent change
// while the call is in transit.
func RunFirst(first func(), then CallFault) CallFault {
	return func(w http.ResponseWriter, r *http.Request, master http.Handler) {
		first()
		then(w, r, master)
	}
}
