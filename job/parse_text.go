package job

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseVolume parses "SOURCE:TARGET[:ro|:rw]", as docker run's --volume does.
func ParseVolume(text string) (Volume, error) {
	parts := strings.Split(text, ":")
	bad := func(why string) (Volume, error) {
		return Volume{}, fmt.Errorf("%q %s: write SOURCE:TARGET or SOURCE:TARGET:ro", text, why)
	}
	if len(parts) < 2 || len(parts) > 3 {
		return bad("is not a volume")
	}
	v := Volume{Source: parts[0], Target: parts[1]}
	if len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
		return bad(fmt.Sprintf("has the option %q, which is neither ro nor rw", parts[2]))
	}
	v.ReadOnly = len(parts) == 3 && parts[2] == "ro"
	return v, nil
}

// ParsePort parses the port of a container, "8080" or "9090/udp", or one with its host
// port, "80:8080", as docker run's --publish does.
func ParsePort(text string) (Port, error) {
	own, protocol, _ := strings.Cut(text, "/")
	p := Port{Protocol: PortProtocol(protocol)}
	ok := true
	if host, rest, both := strings.Cut(own, ":"); both {
		own = rest
		p.Host, ok = parsePortNumber(host)
	}
	n, good := parsePortNumber(own)
	if p.Container = n; !ok || !good {
		return Port{}, fmt.Errorf("%q is not a port from 1 to %d, such as 8080 or 9090/udp, nor HOST:PORT", text, maxPort)
	}
	if strings.Contains(text, "/") && p.Protocol != TCP && p.Protocol != UDP {
		return Port{}, fmt.Errorf("%q: the protocol is neither %s nor %s", text, TCP, UDP)
	}
	return p, nil
}

// parsePortNumber returns a number from 1 to maxPort; false for any other text.
func parsePortNumber(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 1 && n <= maxPort
}

// UnlimitedText is how users write Unlimited.
const UnlimitedText = "unlimited"

// ParseUlimit parses the limits of that name: "65536", "unlimited" or "SOFT:HARD".
func ParseUlimit(name, limits string) (Ulimit, error) {
	soft, hard, two := strings.Cut(limits, ":")
	if !two {
		hard = soft
	}
	u := Ulimit{Name: name}
	for _, l := range []struct {
		text string
		to   *int64
	}{{soft, &u.Soft}, {hard, &u.Hard}} {
		n, err := strconv.ParseInt(l.text, 10, 64)
		if l.text == UnlimitedText {
			n, err = Unlimited, nil
		}
		if err != nil || n < Unlimited {
			return u, fmt.Errorf("%s: %q is not a limit: write a number, %s or SOFT:HARD", name, limits, UnlimitedText)
		}
		*l.to = n
	}
	return u, nil
}

// ParseParameter parses "KEY=VALUE", an option of docker run without its dashes.
func ParseParameter(text string) (DockerParameter, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return DockerParameter{}, fmt.Errorf("%q is not an option of docker run: write KEY=VALUE, without dashes", text)
	}
	return DockerParameter{Key: key, Value: value}, nil
}
