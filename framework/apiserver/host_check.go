package apiserver

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
)

// RestrictHosts rejects requests to hosts other than localhost, IP addresses and the
// given names. A page of another site can make its own DNS name resolve to this machine
// (DNS rebinding); the browser and RejectCrossOrigin then treat it as the same site. The
// paths that monitoring systems read are exempt: they reveal little, and monitoring
// systems use names of their own.
func RestrictHosts(h http.Handler, log logrus.FieldLogger, names ...string) http.Handler {
	monitored := pathsWhere((*route).servesMonitoring)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostName(r.Host)
		own := func(name string) bool { return strings.EqualFold(name, host) }
		if _, err := netip.ParseAddr(host); err != nil && host != "" && !own("localhost") &&
			!slices.ContainsFunc(names, own) && !slices.Contains(monitored, r.URL.Path) {
			apihttp.WriteProblem(w, r, api.NewProblemf(http.StatusForbidden,
				"the request is to %q, which is not a name of this scheduler: use its address, or set the name with --advertise-url",
				r.Host), log)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostName returns the name in a Host header, without port and final dot.
func hostName(header string) string {
	return strings.TrimSuffix((&url.URL{Host: header}).Hostname(), ".")
}
