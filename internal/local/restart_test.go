package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
)

// TestRestartWritesNoKnownAddress: an agent that listens at its earlier address writes nothing, so that a cluster whose disk is full
// starts again. Another address is stored.
func TestRestartWritesNoKnownAddress(t *testing.T) {
	log := logrus.New()
	log.SetOutput(t.Output())
	dir := t.TempDir()
	file := filepath.Join(dir, addressFile)
	listen := func(addr string) (address string, info os.FileInfo) {
		t.Helper()
		a := &localAgent{cluster: &localCluster{ClusterConfig: ClusterConfig{Recover: true, Log: log}}, dir: dir}
		if err := a.listen(addr); err != nil {
			t.Fatal(err)
		}
		address = a.listener.Addr().String()
		_ = a.listener.Close()
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return address, info
	}
	address, before := listen("127.0.0.1:0")
	if _, after := listen(address); !os.SameFile(before, after) {
		t.Error("the known address was written again")
	}
	other, _ := listen("127.0.0.2:0")
	if text, err := os.ReadFile(file); err != nil || string(text) != other && string(text) != address {
		t.Errorf("stored %q, %v", text, err)
	}
}
