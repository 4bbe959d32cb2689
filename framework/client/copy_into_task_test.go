package client

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"mesos-gpu/framework/api"
)

// TestRejectedFolderLeavesNoGoroutine rejects a folder before its contents are read. CopyIntoTask waits for the goroutine
// that packs the folder, which must end although the rest of the archive is not read.
func TestRejectedFolderLeavesNoGoroutine(t *testing.T) {
	c := newTestClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"title":"Conflict","status":409,"detail":"the task is WAITING","code":"task_not_running"}`))
	}))
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "model"), make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.CopyIntoTask(t.Context(), "train.0", folder, "models/", CopyOptions{})
	if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Code != api.CodeTaskNotRunning {
		t.Errorf("got %v, want the scheduler's problem", err)
	}
}
