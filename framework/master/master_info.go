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

// Prefixes of masters' nodes; the sequence number follows.
const (
	jsonPrefix   = "json.info_"
	binaryPrefix = "info_"
)

// nodeKind is what a node of the masters' folder is.
type nodeKind int

const (
	noMaster nodeKind = iota
	binaryInfo
	jsonInfo
)

// leadingNode is the node with the lowest sequence number: its master leads. Other
// nodes, such as the replicas of the masters' log, are passed over.
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
		// Past 2^31 ZooKeeper's counter goes on below zero.
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

// masterInfo is the part of Mesos's MasterInfo that tells an address: in
// address, or in ip, a number in network order, and port.
type masterInfo struct {
	Address struct {
		Hostname, IP string
		Port         int
	}
	Hostname string
	IP       uint32
	Port     int
}

// masterURL makes a base URL of a master's node. A certificate is for a name, so
// https goes by that; http by the IP, which needs no name service.
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
