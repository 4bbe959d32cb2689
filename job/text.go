package job

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseVolume reads "SOURCE:TARGET", with ":ro" or ":rw" after it, as docker
// run's --volume.
func ParseVolume(text string) (Volume, error) {
	parts := strings.Split(text, ":")
	bad := func(why string) (Volume, error) {
		return Volume{}, fmt.Errorf("%q %s: write SOURCE:TARGET or SOURCE:TARGET:ro", text, why)
	}
	if len(parts) < 2 || len(parts) > 3 {
		return bad("is no volume")
	}
	v := Volume{Source: parts[0], Target: parts[1]}
	if len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
		return bad(fmt.Sprintf("has the option %q, which is neither ro nor rw", parts[2]))
	}
	v.ReadOnly = len(parts) == 3 && parts[2] == "ro"
	return v, nil
}

// ParsePort reads a container's own port, as "8080" or "9090/udp".
func ParsePort(text string) (Port, error) {
	if strings.Contains(text, ":") {
		return Port{}, fmt.Errorf("%q names a host port, which each task gets from the offer: write the container's port alone", text)
	}
	number, protocol, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 65535 {
		return Port{}, fmt.Errorf("%q is no port from 1 to 65535, such as 8080 or 9090/udp", text)
	}
	p := Port{Container: n, Protocol: Protocol(protocol)}
	if strings.Contains(text, "/") && p.Protocol != TCP && p.Protocol != UDP {
		return Port{}, fmt.Errorf("%q: the protocol is neither %s nor %s", text, TCP, UDP)
	}
	return p, nil
}

// UnlimitedText is how people write Unlimited.
const UnlimitedText = "unlimited"

// ParseUlimit reads the limits of that name: "65536", "unlimited" or
// "SOFT:HARD".
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
			return u, fmt.Errorf("%s: %q is no limit: write a number, %s or SOFT:HARD", name, limits, UnlimitedText)
		}
		*l.to = n
	}
	return u, nil
}

// ParseParameter reads "KEY=VALUE", an option of docker run without its
// dashes.
func ParseParameter(text string) (Parameter, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return Parameter{}, fmt.Errorf("%q is no option of docker run: write KEY=VALUE, without dashes", text)
	}
	return Parameter{Key: key, Value: value}, nil
}
