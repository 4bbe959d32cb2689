package job

import (
	"errors"
	"net/netip"
	"testing"
)

func TestFetchHostsCoverListedHostsOnly(t *testing.T) {
	for _, c := range []struct {
		name    string
		hosts   FetchHosts
		uri     string
		allowed bool
	}{
		{"no list", nil, "http://127.0.0.1:5051/state", true},
		{"empty list", FetchHosts{}, "https://example.org/x", false},
		{"listed name", FetchHosts{"example.org"}, "https://example.org/x", true},
		{"other case and root period", FetchHosts{"Example.org"}, "https://EXAMPLE.org./x", true},
		{"name below a listed one", FetchHosts{"example.org"}, "https://a.example.org/x", false},
		{"explicit default port", FetchHosts{"example.org"}, "https://example.org:443/x", true},
		{"other port", FetchHosts{"example.org"}, "https://example.org:8443/x", false},
		{"listed port", FetchHosts{"example.org:8443"}, "https://example.org:8443/x", true},
		{"default port with another listed", FetchHosts{"example.org:8443"}, "https://example.org/x", false},
		{"port 443 listed without a scheme", FetchHosts{"example.org:443"}, "http://example.org/x", false},
		{"below a suffix", FetchHosts{"*.example.org"}, "https://a.b.example.org/x", true},
		{"suffix itself", FetchHosts{"*.example.org"}, "https://example.org/x", false},
		{"suffix as text", FetchHosts{"*.example.org"}, "https://badexample.org/x", false},
		{"suffix with a port", FetchHosts{"*.example.org:81"}, "http://a.example.org:81/x", true},
		{"every public name", FetchHosts{"*"}, "https://example.org/x", true},
		{"public address below a star", FetchHosts{"*"}, "http://8.8.8.8/x", true},
		{"loopback below a star", FetchHosts{"*"}, "http://127.0.0.1/x", false},
		{"IPv6 loopback below a star", FetchHosts{"*"}, "http://[::1]/x", false},
		{"mapped loopback below a star", FetchHosts{"*"}, "http://[::ffff:127.0.0.1]/x", false},
		{"metadata service below a star", FetchHosts{"*"}, "http://169.254.169.254/latest", false},
		{"name of the metadata service below a star", FetchHosts{"*"}, "http://metadata.google.internal/x", false},
		{"private address below a star", FetchHosts{"*"}, "http://10.1.2.3/x", false},
		{"localhost below a star", FetchHosts{"*"}, "http://localhost/x", false},
		{"name of the search domain below a star", FetchHosts{"*"}, "http://metadata/x", false},
		{"short form of an address", FetchHosts{"*"}, "http://127.1/x", false},
		{"decimal form of an address", FetchHosts{"*"}, "http://2130706433/x", false},
		{"hexadecimal form of an address", FetchHosts{"*"}, "http://0x7f.0x1/x", false},
		{"listed address", FetchHosts{"127.0.0.1:8000"}, "http://127.0.0.1:8000/x", true},
		{"listed IPv6 address", FetchHosts{"[::1]:8000"}, "http://[0:0::1]:8000/x", true},
		{"listed IPv6 address without a port", FetchHosts{"::1"}, "http://[::1]/x", true},
		{"listed single-label name", FetchHosts{"mirror"}, "http://mirror/x", true},
		{"bucket", FetchHosts{"models"}, "s3://models/x", true},
		{"cluster without a name", FetchHosts{"*"}, "hdfs:///x", false},
		{"user and password", FetchHosts{"example.org"}, "https://u:p@example.org/x", true},
		{"host in the user", FetchHosts{"example.org"}, "https://example.org@127.0.0.1/x", false},
		{"two at signs", FetchHosts{"example.org"}, "https://u@127.0.0.1@example.org/x", false},
		{"backslash", FetchHosts{"example.org"}, `https://127.0.0.1\@example.org/x`, false},
		{"host after a fragment", FetchHosts{"example.org"}, "https://127.0.0.1#@example.org/", false},
		{"host after a query", FetchHosts{"example.org"}, "https://127.0.0.1?@example.org/", false},
		{"character outside ASCII", FetchHosts{"example.org"}, "https://example。org/x", false},
		{"agent file", FetchHosts{}, "file:///data/x", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.hosts.CheckURI(c.uri); (err == nil) != c.allowed {
				t.Errorf("%s with %q: %v", c.uri, c.hosts, err)
			}
		})
	}
}

func TestLocalAddressesNeedTheirOwnEntry(t *testing.T) {
	for _, c := range []struct {
		hosts   FetchHosts
		host    string
		port    string
		addr    string
		allowed bool
	}{
		{nil, "example.org", "443", "127.0.0.1", true},
		{FetchHosts{"*"}, "example.org", "443", "93.184.216.34", true},
		{FetchHosts{"*"}, "example.org", "443", "127.0.0.1", false},
		{FetchHosts{"*.example.org"}, "a.example.org", "443", "10.0.0.1", false},
		{FetchHosts{"*.example.org"}, "a.example.org", "443", "169.254.169.254", false},
		{FetchHosts{"*.example.org"}, "a.example.org", "443", "fe80::1", false},
		{FetchHosts{"*.example.org"}, "a.example.org", "443", "fd00::1", false},
		{FetchHosts{"*.example.org"}, "a.example.org", "443", "64:ff9b::7f00:1", false},
		{FetchHosts{"*.example.org"}, "a.example.org", "443", "::127.0.0.1", false},
		{FetchHosts{"*.example.org"}, "a.example.org", "443", "0.0.0.0", false},
		{FetchHosts{"*.example.org", "a.example.org"}, "a.example.org", "443", "10.0.0.1", true},
		{FetchHosts{"*.example.org:81", "a.example.org"}, "a.example.org", "81", "10.0.0.1", false},
		{FetchHosts{"*.example.org", "a.example.org:81"}, "a.example.org", "443", "10.0.0.1", false},
		{FetchHosts{"mirror.example.org:8080"}, "Mirror.example.org", "8080", "10.0.0.1", true},
	} {
		err := c.hosts.CheckAddress(c.host, c.port, netip.MustParseAddr(c.addr))
		if forbidden := (*ForbiddenHostError)(nil); (err == nil) != c.allowed || err != nil && !errors.As(err, &forbidden) {
			t.Errorf("%s:%s at %s with %q: %v", c.host, c.port, c.addr, c.hosts, err)
		}
	}
}

func TestFetchHostEntriesAreValidated(t *testing.T) {
	for entry, good := range map[string]bool{
		"example.org":         true,
		"example.org:8080":    true,
		"*.example.org":       true,
		"*":                   true,
		"*:8080":              true,
		"10.0.0.1:80":         true,
		"::1":                 true,
		"[::1]":               true,
		"[::1]:80":            true,
		"mirror":              true,
		"":                    false,
		"https://example.org": false,
		"example.org/x":       false,
		"*example.org":        false,
		"a.*.org":             false,
		"example.org:":        false,
		"[::1":                false,
		"[":                   false,
		"[::1]x:80":           false,
		"example.org:http":    false,
		"127.1":               false,
		"u@example.org":       false,
		"a b":                 false,
	} {
		if err := ValidateFetchHost(entry); (err == nil) != good {
			t.Errorf("%q: %v", entry, err)
		}
	}
}
