package job

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// FetchHosts lists the hosts from which agents may fetch files for a job: HOST, *.SUFFIX or *, each with an optional
// port. An entry without a port covers the default port of the URI's scheme. nil covers every host.
//
// Entries with a star cover public hosts only. A host with a loopback, link-local or private address, or a name that
// only a local network defines, has to be listed itself: an agent can reach services there that its tasks cannot.
type FetchHosts []string

// FetchHostsLabel is an executor's label with the entries of FetchHosts, separated by blanks. The embedded agent reads
// it, because it checks redirects and addresses.
const FetchHostsLabel = "mesos-gpu.fetch_hosts"

// ForbiddenHostError reports a host from which a job may not fetch.
type ForbiddenHostError struct {
	// Host has the port, if the URI or its scheme has one.
	Host  string
	Hosts FetchHosts
}

func (e *ForbiddenHostError) Error() string {
	listed := "no host"
	if len(e.Hosts) > 0 {
		listed = strings.Join(e.Hosts, ", ")
	}
	return fmt.Sprintf("%s: the access file allows jobs of this role to fetch from %s", e.Host, listed)
}

// defaultPorts maps schemes that name a host to their default ports.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ftp": "21", "ftps": "990"}

// localSuffixes end names that are not of the public DNS.
var localSuffixes = []string{".localhost", ".localdomain", ".local", ".internal", ".home.arpa"}

// ValidateFetchHost returns an error for an invalid entry of FetchHosts.
func ValidateFetchHost(entry string) error {
	host, port, err := splitHost(entry)
	if rest, star := strings.CutPrefix(host, "*."); star {
		host = rest
	} else if host == "*" {
		host = "x"
	}
	if err == nil {
		err = validateHost(host, port)
	}
	if err != nil {
		return fmt.Errorf("fetch %q: %w: write HOST, *.SUFFIX or *, with :PORT for another than the default port of the scheme", entry, err)
	}
	return nil
}

// CheckURI returns a *ForbiddenHostError if the URI's host is not listed. It accepts the agent's own files, to which
// other rules apply. It rejects URIs that a URL parser other than Go's may read differently, such as curl's.
func (h FetchHosts) CheckURI(uri string) error {
	if _, own := AgentFilePath(uri); own || h == nil {
		return nil
	}
	u, err := url.Parse(uri)
	if err != nil || u.Opaque != "" || strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return errors.New("a URI to fetch consists of printable ASCII characters other than blanks and \\")
	}
	authority, _, _ := strings.Cut(strings.SplitN(uri, "://", 2)[1], "/")
	if strings.Count(authority, "@") > 1 || strings.ContainsAny(u.Hostname(), "%") {
		return errors.New("the host of a URI to fetch is ambiguous: percent-encode @ and % in its user and password, and use none in the host")
	}
	host, port := canonicalHost(u.Hostname()), u.Port()
	if port == "" {
		port = defaultPorts[u.Scheme]
	}
	if err := validateHost(host, port); err != nil {
		return fmt.Errorf("host %q of a URI to fetch: %w", u.Host, err)
	}
	if !slices.ContainsFunc(h, func(entry string) bool { return coversHost(entry, u.Scheme, host, port) }) {
		return &ForbiddenHostError{joinHost(host, port), h}
	}
	return nil
}

// CheckAddress returns a *ForbiddenHostError if a host that CheckURI has accepted has an address that is not public,
// unless the host is listed itself: with this port, or without one if this is a scheme's default port.
func (h FetchHosts) CheckAddress(host, port string, addr netip.Addr) error {
	if h == nil || isPublic(addr) {
		return nil
	}
	host = canonicalHost(host)
	for _, entry := range h {
		name, entryPort, err := splitHost(entry)
		if err == nil && name == host && (entryPort == port || entryPort == "" && isDefaultPort(port)) {
			return nil
		}
	}
	return &ForbiddenHostError{fmt.Sprintf("%s with the address %s, which is not public and needs its own entry", joinHost(host, port), addr), h}
}

// isDefaultPort reports whether a port is the default port of some scheme.
func isDefaultPort(port string) bool {
	return slices.Contains(slices.Collect(maps.Values(defaultPorts)), port)
}

// coversHost reports whether an entry covers a canonical host and its port, which is empty if the scheme has none.
func coversHost(entry, scheme, host, port string) bool {
	name, entryPort, err := splitHost(entry)
	if entryPort == "" {
		entryPort = defaultPorts[scheme]
	}
	suffix, star := strings.CutPrefix(name, "*")
	switch {
	case err != nil || entryPort != port:
		return false
	case !star:
		return name == host
	case suffix != "":
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return isPublic(addr)
	}
	return strings.Contains(host, ".") && !slices.ContainsFunc(localSuffixes, func(end string) bool { return strings.HasSuffix(host, end) })
}

// splitHost returns the canonical host of an entry, and its port if it has one.
func splitHost(entry string) (host, port string, err error) {
	host = entry
	bracketed := strings.HasPrefix(entry, "[")
	if colon := strings.LastIndexByte(entry, ':'); bracketed && !strings.HasSuffix(entry, "]") || !bracketed && strings.Count(entry, ":") == 1 {
		host, port = entry[:max(colon, 0)], entry[colon+1:]
		if port == "" || bracketed != strings.HasSuffix(host, "]") {
			err = errors.New("neither HOST:PORT nor [ADDRESS]:PORT")
		}
	}
	return canonicalHost(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")), port, err
}

// canonicalHost returns a name in lower case without the period of the root, or an address in its shortest form.
func canonicalHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// validateHost accepts names and addresses that every resolver reads alike. 127.1 and 0x7f000001 are addresses for
// some, so a name must not end in a number.
func validateHost(host, port string) error {
	if strings.Trim(port, "0123456789") != "" {
		return fmt.Errorf("port %q is not a number", port)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	switch {
	case host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "":
		return errors.New("not a host name or an address")
	case strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"):
		return errors.New("not an IPv4 address of four decimal numbers")
	}
	return nil
}

// joinHost returns HOST:PORT, or the host alone without a port.
func joinHost(host, port string) string {
	if port == "" {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// nonPublic are ranges that netip does not classify: this network, shared addresses of carriers, protocol assignments,
// benchmarks, reserved ones, site-local ones, and those of IPv6 that contain every IPv4 address (compatible, NAT64, 6to4,
// Teredo).
var nonPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
}

// isPublic reports whether an address belongs to a host of the public internet.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !slices.ContainsFunc(nonPublic, func(p netip.Prefix) bool { return p.Contains(addr) })
}
