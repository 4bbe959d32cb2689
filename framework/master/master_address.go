package master

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"mesos-gpu/framework/internal/zkconn"
)

// defaultMasterPort is for addresses without a port.
const defaultMasterPort = "5050"

// masterAddresses is the parsed Master setting: base URLs, or ZooKeeper's
// address.
type masterAddresses struct {
	// urls are the base URLs of the masters, if they are named by URL.
	urls []string
	// zk is where the masters register; nil if urls is not empty.
	zk *zkAddress
}

// zkAddress is zk://[user:password@]host[:port],…/path.
type zkAddress struct {
	zkconn.TargetFolder
	// auth is user:password, or "".
	auth string
}

// parseMasters parses the Master setting. scheme is for addresses without one.
func parseMasters(text, scheme string) (masterAddresses, error) {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, zkconn.URLScheme); ok {
		zk, err := parseZK(rest)
		return masterAddresses{zk: zk}, err
	}
	var m masterAddresses
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		base, err := parseMaster(part, scheme)
		if err != nil {
			return masterAddresses{}, err
		}
		m.urls = append(m.urls, base)
	}
	if len(m.urls) == 0 {
		return masterAddresses{}, errors.New("no master given: name one, for example http://127.0.0.1:5050, or zk://127.0.0.1:2181/mesos")
	}
	return m, nil
}

// parseMaster returns the base URL for a URL, a host or host:port.
func parseMaster(text, scheme string) (string, error) {
	full := text
	if !strings.Contains(text, "://") {
		full = scheme + "://" + withPort(text)
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf("master %q is not a URL such as http://127.0.0.1:5050 or zk://127.0.0.1:2181/mesos", text)
	}
	if u.User != nil {
		return "", fmt.Errorf("master %s://%s has a user in its URL: give a credential file instead", u.Scheme, u.Host)
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/"), nil
}

// The errors of parseZK never quote what may be a password.
func parseZK(rest string) (*zkAddress, error) {
	var auth string
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		auth, rest = rest[:i], rest[i+1:]
		if !strings.Contains(auth, ":") {
			return nil, errors.New("zk:// URL has a user and no password: write user:password@, or give a file with that")
		}
	}
	target, err := zkconn.ParseTarget(zkconn.URLScheme + rest)
	if err != nil {
		return nil, fmt.Errorf("find masters by ZooKeeper: %w", err)
	}
	return &zkAddress{target, auth}, nil
}

// withPort adds the default port to a host without one. A literal IPv6 address
// may have brackets.
func withPort(host string) string {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return net.JoinHostPort(ip.String(), defaultMasterPort)
	}
	if strings.Contains(host, ":") {
		return host
	}
	return net.JoinHostPort(host, defaultMasterPort)
}

func joinHostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// bracketIPv6 adds the brackets that Mesos omits in an address such as
// ::1:5050.
func bracketIPv6(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 {
		if ip, err := netip.ParseAddr(address[:i]); err == nil && ip.Is6() {
			return "[" + address[:i] + "]" + address[i:]
		}
	}
	return address
}
