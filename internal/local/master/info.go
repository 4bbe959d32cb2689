package master

import (
	"encoding/binary"
	"net"
	"strconv"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// masterInfo returns the MasterInfo of the SUBSCRIBED event.
func masterInfo(id, addr string) mesos.MasterInfo {
	host, port := hostPort(addr)
	info := mesos.MasterInfo{
		ID:       id,
		Port:     proto.Uint32(uint32(port)),
		PID:      proto.String("master@" + addr),
		Hostname: proto.String(host),
		Version:  proto.String(link.Version),
		Address:  &mesos.Address{Hostname: proto.String(host), IP: ipOf(host), Port: int32(port)},
		Capabilities: []mesos.MasterInfo_Capability{
			{Type: mesos.MasterInfo_Capability_AGENT_UPDATE},
		},
	}
	if ip := info.Address.IP; ip != nil {
		if v4 := net.ParseIP(*ip).To4(); v4 != nil {
			info.IP = binary.LittleEndian.Uint32(v4) // network byte order, as in libprocess
		}
	}
	return info
}

// hostPort splits the address of a listener.
func hostPort(addr string) (string, uint16) {
	host, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.ParseUint(text, 10, 16)
	return host, uint16(port)
}

// ipOf returns host if it is an IP address, or nil.
func ipOf(host string) *string {
	switch {
	case host == "localhost":
		return proto.String("127.0.0.1")
	case net.ParseIP(host) != nil:
		return proto.String(host)
	}
	return nil
}

// agentURL returns the URL of an agent's APIs.
func agentURL(info mesos.AgentInfo) *mesos.URL {
	return &mesos.URL{
		Scheme:  "http",
		Address: mesos.Address{Hostname: proto.String(info.Hostname), IP: ipOf(info.Hostname), Port: info.GetPort()},
		Path:    proto.String("/slave(1)"),
	}
}

func timeInfo(t time.Time) *mesos.TimeInfo {
	if t.IsZero() {
		return nil
	}
	return &mesos.TimeInfo{Nanoseconds: t.UnixNano()}
}

func unixSeconds(t time.Time) *float64 { return proto.Float64(float64(t.UnixNano()) / 1e9) }
