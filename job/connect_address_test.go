package job

import (
	"strings"
	"testing"
)

func TestConnectAddresses(t *testing.T) {
	host := Container{Ports: []Port{{Name: "http"}, {Container: 9090}, {Name: "dns", Protocol: UDP}}}
	task := Task{ID: "web.0.1.x", AgentURL: "http://10.0.0.7:5051/slave(1)", Ports: []int{31000, 31001, 31002}, Addresses: []string{"10.9.0.3"}}
	network := Container{Ports: []Port{{Name: "http", Container: 8080}}, Network: "front"}
	for _, tt := range []struct {
		container  Container
		port, want string
	}{
		{host, "", "127.0.0.1:31000 [::1]:31000 10.0.0.7:31000"},
		{host, "http", "127.0.0.1:31000 [::1]:31000 10.0.0.7:31000"},
		{host, "9090", "127.0.0.1:31001 [::1]:31001 10.0.0.7:31001"},
		{host, "31001", "127.0.0.1:31001 [::1]:31001 10.0.0.7:31001"},
		{host, "dns", "only TCP"},
		{host, "22", `has no port "22": it has http (31000), 31001, dns (31002)`},
		{host, "10.0.0.8:22", "has no port"},
		{Container{}, "", "has no ports: give it some by ports: 1 or --ports 1"},
		{network, "http", "127.0.0.1:8080 [::1]:8080 10.9.0.3:8080"},
		{network, "31000", "127.0.0.1:8080 [::1]:8080 10.9.0.3:8080"},
		{network, "6006", "127.0.0.1:6006 [::1]:6006 10.9.0.3:6006"},
		{host, "0", "127.0.0.1:31000 [::1]:31000 10.0.0.7:31000"},
		{host, "1", "127.0.0.1:31001 [::1]:31001 10.0.0.7:31001"},
		{host, "2", "only TCP"},
		{host, "3", "has no port"},
		{host, "-1", "has no port"},
		{network, "0", "127.0.0.1:8080 [::1]:8080 10.9.0.3:8080"},
		{network, "10.0.0.8:22", "has no port"},
	} {
		s := Spec{Name: "web", Container: tt.container, Containerizer: Mesos}
		addresses, err := s.ConnectAddresses(&task, tt.port)
		got := strings.Join(addresses, " ")
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
			t.Errorf("port %q: got %s, want %s", tt.port, got, tt.want)
		}
	}
}
