package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
)

// RestrictHosts refuses requests to hosts other than localhost, an IP address and
// the names. A page of another site can have its own name lead to this
// machine; to the browser, and to Guard, it is then of the same site. What
// monitors read is of little use to such a page, and they have names of their own.
func RestrictHosts(h http.Handler, log logrus.FieldLogger, names ...string) http.Handler {
	monitored := append(OpenPaths(), "/metrics", "/metrics/prometheus")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostName(r.Host)
		own := func(name string) bool { return strings.EqualFold(name, host) }
		if _, err := netip.ParseAddr(host); err != nil && host != "" && !own("localhost") && !slices.ContainsFunc(names, own) && !slices.Contains(monitored, r.URL.Path) {
			WriteProblem(w, r, NewProblemf(http.StatusForbidden, "the request is to %q, which is no name of this scheduler's: use its address, or give it the name by --advertise-url", r.Host), log)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostName is what a Host header names, without port and final dot.
func hostName(header string) string {
	return strings.TrimSuffix((&url.URL{Host: header}).Hostname(), ".")
}
