package hostcheck

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestAddressIsChecked checks that a rejected address gets no connection, that the check has the name and the resolved address,
// and that an accepted one is connected.
func TestAddressIsChecked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	rejected := errors.New("rejected")
	var answer error
	d := Dialer{Timeout: time.Minute, Check: func(host, checkedPort string, addr netip.Addr) error {
		if host != "localhost" || checkedPort != port || !addr.IsLoopback() {
			t.Errorf("checked %s, port %s, address %s", host, checkedPort, addr)
		}
		return answer
	}}
	conn, err := d.DialContext(t.Context(), "tcp", "localhost:"+port)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	answer = rejected
	if _, err := d.DialContext(t.Context(), "tcp", "localhost:"+port); !errors.Is(err, rejected) {
		t.Errorf("got %v, want that the address is rejected", err)
	}
	if _, err := d.DialContext(t.Context(), "tcp", "localhost"); err == nil {
		t.Error("an address without a port is connected")
	}
}
