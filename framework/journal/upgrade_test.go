package journal

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// The journals in testdata/upgrade were written by the last release of each schema, and by
// this one. They hold the same contents, except what the schema cannot store.
func contentsOfSchema(schema int) JournalContents {
	one, three := testJob("one", 3), testJob("three", 1)
	one.Tasks[2].State = job.Finished
	all := JournalContents{FrameworkID: "f1", Jobs: []*job.Job{one, three}}
	if schema >= 2 {
		three.Spec.Constraints = []job.Constraint{{Field: "@hostname", Operator: job.Like, Value: "gpu-[0-9]+"}}
	}
	if schema >= 5 { // their names changed with schema 6
		one.Tasks[0].Shares = []gpu.DeviceShare{{UUID: "GPU-a", Type: "V100", MemMiB: 4096, Cores: 30, MilliDevices: 300}}
	}
	if schema >= 7 { // several owners may have live jobs of one name
		other := testRun(job.RunID{Name: "three", Run: 2}, 1)
		other.Spec.Owner = "bob"
		all.Jobs = append(all.Jobs, other)
	}
	if schema >= 3 {
		all.Documents = map[string][]byte{"k": []byte("v")}
	}
	return all
}

func readFixture(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "upgrade", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// checkUpgrade checks that the contents are loaded, and that they and a new change are there
// after the journal is opened again.
func checkUpgrade(t *testing.T, schema int, open func() Journal) {
	t.Helper()
	want := contentsOfSchema(schema)
	j := open()
	if diff := diffContents(want, loadContents(t, j)); diff != "" {
		t.Fatalf("loaded other contents: %s", diff)
	}
	two, again := testJob("two", 1), testRun(job.RunID{Name: "one", Run: 2}, 2)
	commitChange(t, j, Change{Jobs: []*job.Job{two, again}, Tasks: append(two.Tasks, again.Tasks...)})
	closeJournal(t, j)
	want.Jobs = append(want.Jobs, two, again)
	slices.SortFunc(want.Jobs, func(a, b *job.Job) int { return job.CompareRuns(a.RunID(), b.RunID()) })
	j = open()
	if diff := diffContents(want, loadContents(t, j)); diff != "" {
		t.Errorf("after a change: loaded other contents: %s", diff)
	}
	closeJournal(t, j)
}

// A file of each schema is opened, and has a marker and this release's schema from the first
// change on.
func TestFilesOfEarlierReleasesAreOpened(t *testing.T) {
	for schema := OldestSchema; schema <= Schema; schema++ {
		t.Run(fmt.Sprint("schema ", schema), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal.db")
			if err := os.WriteFile(path, readFixture(t, fmt.Sprintf("schema-%d.db.gz", schema)), 0o600); err != nil {
				t.Fatal(err)
			}
			checkUpgrade(t, schema, func() Journal { return openBolt(t, path) })
			if got := storedSchema(t, path); got != strconv.Itoa(Schema) {
				t.Errorf("schema %s after the upgrade, want %d", got, Schema)
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenBolt(path); !errors.Is(err, ErrEmptied) {
				t.Errorf("emptied after the upgrade: got %v, want ErrEmptied", err)
			}
		})
	}
}

func storedSchema(t *testing.T, path string) (schema string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		schema = string(tx.Bucket(metaBucket()).Get(schemaKey()))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// A journal of each schema in ZooKeeper is opened and followed. Journals up to schema 4 do
// not have the number of their last change, and have it from the first change on.
func TestZnodesOfEarlierReleasesAreOpened(t *testing.T) {
	t.Parallel()
	addr := zktest.StartServer(t).Addr()
	for schema := 2; schema <= Schema; schema++ { // schema 1 had only files
		t.Run(fmt.Sprint("schema ", schema), func(t *testing.T) {
			checkZnodesUpgrade(t, newSession(t, addr), schema, fmt.Sprint("/journal", schema))
		})
	}
}

func checkZnodesUpgrade(t *testing.T, s *zkconn.Session, schema int, path string) {
	t.Helper()
	znodes := map[string][]byte{}
	if err := json.Unmarshal(readFixture(t, fmt.Sprintf("schema-%d.json.gz", schema)), &znodes); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(znodes)) {
		if _, err := s.Conn.Create(path+name, znodes[name], 0, s.ACL); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	copied, ended := newTestReplica(), make(chan error, 1)
	go func() { ended <- FollowJournal(ctx, s, path, copied) }()
	follows := func(want int) {
		t.Helper()
		if all := copied.awaitUpToDate(t); len(all.Jobs) != want {
			t.Errorf("the follower has %d jobs, want %d", len(all.Jobs), want)
		}
	}
	stored := len(contentsOfSchema(schema).Jobs)
	follows(stored)
	checkUpgrade(t, schema, func() Journal { return openZooKeeper(t, s, path) })
	follows(stored + 2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow returned %v", err)
	}
	store := znodeStore{session: s, path: path}
	last, err := store.lastEntry(testTimeout(t))
	names, _, lerr := s.Conn.Children(path + logNode)
	if want := slices.Max(names); err != nil || lerr != nil || fmt.Sprintf("%0*d", len(want), last) != want {
		t.Errorf("last entry %d, %v, want %s", last, err, want)
	}
}

// TestEarlierScalingsAreChanges checks that scalings in the record of a release that knew no other changes are read, and are
// written as changes.
func TestEarlierScalingsAreChanges(t *testing.T) {
	record := `{"spec":{"name":"web","tasks":0},"submitted":"2026-11-20T10:00:00Z","scalings":[
		{"time":"2026-11-20T11:00:00Z","from":1,"to":0,"by":"ada"},{"time":"2026-11-20T12:00:00Z","from":0,"to":3,"reason":"load"}]}`
	stored, err := decodeStoredJob("web", []byte(record))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	want := []job.Change{
		{Time: at, Kind: job.ScaleChange, By: "ada", From: 1},
		{Time: at.Add(time.Hour), Kind: job.ScaleChange, To: 3, Reason: "load"},
	}
	read := stored.newJob()
	if diff := cmp.Diff(want, read.Changes); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	records, err := encodeChange(Change{Jobs: []*job.Job{read}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeStoredJob("web", records[0].value)
	if err != nil || again.Scalings != nil {
		t.Errorf("written as %s, %v", records[0].value, err)
	}
	if diff := cmp.Diff(want, again.newJob().Changes); diff != "" {
		t.Errorf("written and read (-want +got)\n%s", diff)
	}
}
