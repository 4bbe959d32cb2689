package apiserver

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// serveLocalExec serves a task whose commands run on this machine, in a folder.
func serveLocalExec(t *testing.T, options ...HandlerOption) (url, folder string) {
	t.Helper()
	folder = t.TempDir()
	f := &fakeBackend{
		task: job.Task{ID: "train.0", Job: "train", AgentID: "a", State: job.Running},
		exec: func(ctx context.Context, r api.ExecRequest, to api.Terminal) (int, error) {
			c := exec.CommandContext(ctx, r.Argv[0], r.Argv[1:]...)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // as an agent ends all of a container
			c.Env = append(os.Environ(), "MESOS_SANDBOX="+folder)
			input, err := c.StdinPipe()
			if err != nil {
				return 0, err
			}
			c.Stdout, c.Stderr = to.Stdout, to.Stderr
			if err := c.Start(); err != nil {
				return 0, err
			}
			go func() { // a Read may block until this function returns
				_, _ = io.Copy(input, to.Stdin)
				input.Close()
			}()
			err = c.Wait()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && ctx.Err() == nil {
				return exit.ExitCode(), nil
			}
			return 0, errors.Join(err, context.Cause(ctx))
		},
	}
	s := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger(), options...))
	t.Cleanup(s.Close)
	return s.URL + "/v1/tasks/train.0", folder
}

func TestFilesAreWrittenIntoTasks(t *testing.T) {
	url, folder := serveLocalExec(t)
	if err := os.Mkdir(filepath.Join(folder, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"path=a": "a", "path=new/b&name=ignored": "new/b", "path=there&name=c": "there/c", "path=made/&name=d": "made/d", "path=-e": "-e",
		"path=&name=e": "e", "path=%24(touch+x)": "$(touch x)", "path=" + folder + "/absolute": "absolute",
	} {
		if status, _, body := sendRequest(t, "PUT", url+"/file?mode=750&"+query, "content of "+want); status != 204 {
			t.Errorf("%s: %d %s", query, status, body)
			continue
		}
		path := filepath.Join(folder, want)
		text, err := os.ReadFile(path)
		if err != nil || string(text) != "content of "+want {
			t.Errorf("%s: %q, %v", query, text, err)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o750 {
			t.Errorf("%s: mode %o", query, info.Mode().Perm())
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "x")); err == nil {
		t.Error("the path was run as a command")
	}
	for query, want := range map[string]string{
		"path=../x": "400 leads out", "path=a&mode=999": "400 mode", "path=there&name=../c": "400 name", "path=a/b": "422 exit status",
	} {
		status, text, _ := strings.Cut(want, " ")
		if got, _, body := sendRequest(t, "PUT", url+"/file?"+query, "x"); http.StatusText(got) == "" ||
			!strings.HasPrefix(status, string('0'+rune(got/100))) || !strings.Contains(body, text) {
			t.Errorf("%s: %d %s, want %s", query, got, body, want)
		}
	}
	url, _ = serveLocalExec(t, WithoutExec())
	if status, _, body := sendRequest(t, "PUT", url+"/file?path=a", "x"); status != 403 || !strings.Contains(body, "exec_disabled") {
		t.Errorf("with --exec=false: %d %s", status, body)
	}
}

func TestFoldersAreWrittenIntoTasks(t *testing.T) {
	url, folder := serveLocalExec(t)
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	if err := w.WriteHeader(&tar.Header{Name: "d/x", Size: 4, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "text"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if status, _, body := sendRequest(t, "PUT", url+"/files?path=into/it", packed.String()); status != 204 {
		t.Errorf("%d %s", status, body)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "into/it/d/x")); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if status, _, body := sendRequest(t, "PUT", url+"/files?path=bad", "not a tar, but longer than a block"+
		strings.Repeat(" ", 600)); status != 422 || !strings.Contains(body, "tar") {
		t.Errorf("not a tar: %d %s", status, body)
	}
}

func TestWriteIntoEndingTaskReportsTheEnd(t *testing.T) {
	for state, want := range map[job.State]string{
		job.Running: "422 the task ends, or its memory limit",
		job.Failed:  "409 the task ended before the file was complete",
	} {
		f := &fakeBackend{task: job.Task{ID: "train.0", Job: "train", AgentID: "a", State: job.Running}}
		f.exec = func(context.Context, api.ExecRequest, api.Terminal) (int, error) {
			f.task.State = state
			return 137, nil
		}
		s := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()))
		t.Cleanup(s.Close)
		status, _, body := sendRequest(t, "PUT", s.URL+"/v1/tasks/train.0/file?path=a", "x")
		if got := strconv.Itoa(status); got != want[:3] || !strings.Contains(body, want[4:]) {
			t.Errorf("%s: %s %s, want %s", state, got, body, want)
		}
	}
}

// TestCutOffUploadIsNotWritten closes the connection before the end of the file.
func TestCutOffUploadIsNotWritten(t *testing.T) {
	url, folder := serveLocalExec(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimSuffix(url, "/v1/tasks/train.0"), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "PUT /v1/tasks/train.0/file?path=cut HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for part := filepath.Join(folder, "cut.part"); ; time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(part); err == nil && string(text) == "half" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the upload has not begun")
		}
	}
	conn.Close()
	if _, _, body := sendRequest(t, "PUT", url+"/file?path=after", "x"); strings.Contains(body, "detail") {
		t.Error(body)
	}
	if _, err := os.Stat(filepath.Join(folder, "cut")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part was taken for the file: %v", err)
	}
}
