package master

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Prefixes of the masters' nodes. The sequence number follows.
const (
	jsonPrefix   = "json.info_"
	binaryPrefix = "info_"
)

// nodeKind is the kind of a node in the masters' folder.
type nodeKind int

const (
	noMaster nodeKind = iota
	binaryInfo
	jsonInfo
)

// leadingNode returns the node with the lowest sequence number: its master is
// the leader. It ignores other nodes, such as the replicas of the masters'
// log.
func leadingNode(nodes []string) (node string, kind nodeKind) {
	lowest := int64(-1)
	for _, n := range nodes {
		k, number := jsonInfo, ""
		if rest, ok := strings.CutPrefix(n, jsonPrefix); ok {
			number = rest
		} else if rest, ok := strings.CutPrefix(n, binaryPrefix); ok {
			k, number = binaryInfo, rest
		} else {
			continue
		}
		// ZooKeeper's counter is negative after 2^31.
		seq, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			continue
		}
		if kind == noMaster || seq < lowest {
			node, kind, lowest = n, k, seq
		}
	}
	return node, kind
}

// masterInfo has the fields of Mesos's MasterInfo with an address: either
// address, or ip, a number in network order, and port.
type masterInfo struct {
	Address struct {
		Hostname, IP string
		Port         int
	}
	Hostname string
	IP       uint32
	Port     int
}

// masterURL returns the base URL for a master's node. https uses the name, for
// which certificates are issued; http uses the IP, which needs no name
// service.
func masterURL(text []byte, scheme string) (string, error) {
	var info masterInfo
	if err := json.Unmarshal(text, &info); err != nil {
		return "", fmt.Errorf("decode master info: %w", err)
	}
	name, ip, port := info.Address.Hostname, info.Address.IP, info.Address.Port
	if port == 0 {
		port = info.Port
	}
	if name == "" {
		name = info.Hostname
	}
	if ip == "" && info.IP != 0 {
		ip = netip.AddrFrom4([4]byte(binary.LittleEndian.AppendUint32(nil, info.IP))).String()
	}
	hosts := []string{ip, name}
	if scheme == "https" {
		slices.Reverse(hosts)
	}
	for _, host := range hosts {
		if host != "" && port > 0 {
			return scheme + "://" + joinHostPort(host, port), nil
		}
	}
	return "", errors.New("master info has no address")
}
