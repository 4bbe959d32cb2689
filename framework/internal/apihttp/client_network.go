package apihttp

import "net/netip"

// ClientNetwork returns the address of a client, or its /64 network for IPv6. It is the zero
// Addr if the text is not HOST:PORT.
func ClientNetwork(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap()
	if a.Is4() {
		return a
	}
	network, err := a.WithZone("").Prefix(64)
	if err != nil {
		return a
	}
	return network.Addr()
}
