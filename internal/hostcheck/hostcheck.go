// Package hostcheck connects to hosts that users name. It checks the address of each connection, because a name that an
// operator allows may resolve to an address of the internal network.
package hostcheck

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Dialer connects to addresses that Check accepts.
type Dialer struct {
	// Timeout limits one connection.
	Timeout time.Duration
	// Check returns an error for an address to which a host has resolved and to which no connection may be made. It is called
	// with the address that is then connected: a second resolution could have another result.
	Check func(host, port string, addr netip.Addr) error
}

// DialContext connects to HOST:PORT. If Check rejects all addresses, the error wraps that of Check.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: d.Timeout, ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		return d.Check(host, port, at.Addr())
	}}
	return dialer.DialContext(ctx, network, address)
}
