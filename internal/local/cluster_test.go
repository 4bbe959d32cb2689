package local

import (
	"context"
	"os"
	"testing"

	"github.com/sirupsen/logrus"
)

// startCluster runs a cluster on free ports with the test binary as its program.
// The test fails if the cluster does not end without error.
func startCluster(t *testing.T, cfg ClusterConfig) ClusterURLs {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	cfg.API, cfg.Master, cfg.Agent = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.WorkDir, cfg.Binary, cfg.Isolate, cfg.Log = t.TempDir(), binary, os.Geteuid() == 0, log
	ctx, cancel := context.WithCancel(t.Context())
	up, ended := make(chan ClusterURLs, 1), make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, func(a ClusterURLs) { up <- a }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case at := <-up:
		return at
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ClusterURLs{}
	}
}
