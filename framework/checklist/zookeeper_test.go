package checklist

import (
	"fmt"
	"net"
	"testing"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/internal/testing/zktest"
)

// election is the ZooKeeper folder in which masters register, in Mesos's format: the
// lowest sequence number leads.
type election struct {
	t    testing.TB
	conn *zk.Conn
	url  string
}

type silentLogger struct{}

func (silentLogger) Printf(string, ...any) {}

func newElection(t testing.TB) *election {
	t.Helper()
	server := zktest.StartServer(t)
	conn, _, err := zk.Connect([]string{server.Addr()}, waitTimeout, zk.WithLogger(silentLogger{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, err := conn.Create("/mesos", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	return &election{t, conn, "zk://" + server.Addr() + "/mesos"}
}

// addMaster registers a master; leave removes it.
func (e *election) addMaster(w *testEnv) (leave func()) {
	e.t.Helper()
	host, port, err := net.SplitHostPort(w.server.Listener.Addr().String())
	if err != nil {
		e.t.Fatal(err)
	}
	info := fmt.Sprintf(`{"id":"m-%s","hostname":%q,"ip":0,"port":%s,"pid":"master@%s:%s","address":{"hostname":%q,"ip":%q,"port":%s}}`,
		port, host, port, host, port, host, host, port)
	path, err := e.conn.Create("/mesos/json.info_", []byte(info), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		e.t.Fatal(err)
	}
	return func() {
		e.t.Helper()
		if err := e.conn.Delete(path, -1); err != nil {
			e.t.Error(err)
		}
	}
}
