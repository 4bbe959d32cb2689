package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

const secretKey = "the secret of the operator"

// startBucketStore starts a server with the API of S3 and returns a store in it.
func startBucketStore(t *testing.T, maxBytes int64) *Store {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(s.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL":      s.URL,
		"AWS_REGION":            "us-east-1",
		"AWS_ACCESS_KEY_ID":     "a",
		"AWS_SECRET_ACCESS_KEY": secretKey,
	} {
		t.Setenv(name, value)
	}
	store, err := NewStore("s3://models/team/", Limits{Task: maxBytes})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// fakeSandbox has files by path.
type fakeSandbox map[string]string

func (s fakeSandbox) ListFiles(_ context.Context, name string) (files []api.SandboxFile, err error) {
	folders := map[string]bool{}
	for path, text := range s {
		rest, ok := strings.CutPrefix(path, strings.TrimPrefix(name+"/", "./"))
		if first, _, inside := strings.Cut(rest, "/"); ok && inside && !folders[first] {
			folders[first] = true
			files = append(files, api.SandboxFile{Name: first, Folder: true})
		} else if ok && !inside {
			files = append(files, api.SandboxFile{Name: rest, Bytes: int64(len(text))})
		}
	}
	if files == nil {
		err = request.ErrNoFile
	}
	return files, err
}

func (s fakeSandbox) ReadFile(_ context.Context, name string, offset, length uint64) (data []byte, size uint64, err error) {
	text, size := s[name], uint64(len(s[name]))
	return []byte(text[offset:min(size, offset+length)]), size, nil
}

func TestBucketStore(t *testing.T) {
	store, now := startBucketStore(t, 1<<20), time.Now().UTC()
	task := &job.Task{ID: "train.0.1.a", Job: "train", Index: 0}
	if r, err := store.FindReport(t.Context(), task); r != nil || err != nil {
		t.Fatalf("before the copy: %+v, %v", r, err)
	}
	if s := store.FindSandbox(t.Context(), task); s != nil {
		t.Fatalf("before the copy: %+v", s)
	}
	large := strings.Repeat("0123456789abcdef", 50_000)
	earlier := *task
	earlier.ID = "train.0.1.earlier"
	if _, err := store.Copy(t.Context(), &earlier, "alice", []string{"out"}, fakeSandbox{"out/left": "of an earlier job"}, now); err != nil {
		t.Fatal(err)
	}
	if r, err := store.FindReport(t.Context(), task); r != nil || err != nil {
		t.Fatalf("the report of an earlier job: %+v, %v", r, err)
	}
	report, err := store.Copy(t.Context(), task, "alice", []string{"out", "none"}, fakeSandbox{"out/large": large, "out/deep/empty": ""}, now)
	if err != nil || len(report.Files) != 2 || len(report.Missing) != 1 || report.Error != "" {
		t.Fatalf("copied %+v, %v", report, err)
	}
	if r, err := store.FindReport(t.Context(), task); err != nil || fmt.Sprint(r) != fmt.Sprint(report) {
		t.Errorf("the report is %+v, %v, want %+v", r, err, report)
	}
	s := store.FindSandbox(t.Context(), task)
	files, err := s.ListFiles(t.Context(), "out")
	if err != nil || len(files) != 2 || files[0].Name != "large" || files[0].Bytes != int64(len(large)) || files[1].Name != "deep" || !files[1].Folder {
		t.Errorf("listed %+v, %v", files, err)
	}
	if files, err := s.ListFiles(t.Context(), "."); err != nil || len(files) != 1 || files[0].Name != "out" {
		t.Errorf("listed %+v, %v", files, err)
	}
	if files, err := s.ListFiles(t.Context(), "out/large"); err != nil || len(files) != 0 {
		t.Errorf("a file lists %+v, %v", files, err)
	}
	text, err := io.ReadAll(&sandboxFile{ctx: t.Context(), sandbox: s, name: "out/large", size: uint64(len(large)), next: []byte(large[:1000])})
	if err != nil || string(text) != large {
		t.Errorf("read %d bytes, %v", len(text), err)
	}
	for _, offset := range []uint64{0, uint64(len(large)), uint64(len(large)) + 7} {
		data, size, err := s.ReadFile(t.Context(), "out/large", offset, 16)
		if want := large[min(offset, size):min(offset+16, size)]; err != nil || size != uint64(len(large)) || string(data) != want {
			t.Errorf("at %d: %q of %d, %v", offset, data, size, err)
		}
	}
	if data, size, err := s.ReadFile(t.Context(), "out/deep/empty", 0, 16); err != nil || size != 0 || len(data) != 0 {
		t.Errorf("an empty file: %q, %d, %v", data, size, err)
	}
	for _, missing := range []string{"out/left", "stdout"} {
		if _, _, err := s.ReadFile(t.Context(), missing, 0, 1); !errors.Is(err, request.ErrNoFile) {
			t.Errorf("%s: %v", missing, err)
		}
		if _, err := s.ListFiles(t.Context(), missing); !errors.Is(err, request.ErrNoFile) {
			t.Errorf("%s: %v", missing, err)
		}
	}
	small := &Store{storage: store.storage, limits: Limits{Task: 10}}
	if r, err := small.Copy(t.Context(), task, "alice", []string{"a", "b"}, fakeSandbox{"a": "1234", "b": large}, now); err != nil ||
		len(r.Files) != 1 || !strings.Contains(r.Error, "more than the limit of 10") {
		t.Errorf("above the limit: %+v, %v", r, err)
	}
	if r, err := store.RecordFailure(t.Context(), task, "no sandbox", now); err != nil || r.Error != "no sandbox" || store.FindSandbox(t.Context(), task) != nil {
		t.Errorf("recorded %+v, %v", r, err)
	}
}

// Errors name the store, and never its credentials.
func TestBucketErrors(t *testing.T) {
	startBucketStore(t, 1)
	task := &job.Task{ID: "train.0.1.a", Job: "train"}
	absent, err := NewStore("s3://absent", Limits{Task: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = absent.Copy(t.Context(), task, "alice", []string{"a"}, fakeSandbox{"a": "1"}, time.Now()); err == nil || strings.Contains(err.Error(), secretKey) {
		t.Errorf("a bucket that does not exist: %v", err)
	}
	if r, err := absent.FindReport(t.Context(), task); err == nil {
		t.Errorf("a bucket that does not exist has the report %+v", r)
	}
	for _, address := range []string{"ftp://host", "host:9000", "http://user:" + secretKey + "@host", "http://%"} {
		t.Setenv("AWS_ENDPOINT_URL", address)
		if _, err := NewStore("s3://models", Limits{Task: 1}); err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL: write") || strings.Contains(err.Error(), secretKey) {
			t.Errorf("%q: %v", address, err)
		}
	}
	t.Setenv("AWS_ENDPOINT_URL", "")
	if _, err := NewStore("s3://", Limits{Task: 1}); err == nil {
		t.Error("a location without a bucket is accepted")
	}
	if s, err := NewStore("", Limits{Task: 1}); s != nil || err != nil {
		t.Errorf("no location: %v, %v", s, err)
	}
}
