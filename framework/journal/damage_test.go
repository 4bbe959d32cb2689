package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// damageRuns returns how many random damages a test tries.
func damageRuns(usual int) int {
	if testneeds.IsLongRun() {
		return 50 * usual
	}
	return usual
}

// damageFile returns a copy of a journal file with one random damage, and its description.
func damageFile(data []byte, chance *rand.Rand) ([]byte, string) {
	page := os.Getpagesize()
	pages := len(data) / page
	one, other := chance.IntN(pages), chance.IntN(pages)
	at, size := chance.IntN(len(data)), 1+chance.IntN(3*page)
	d := bytes.Clone(data)
	pageOf := func(of []byte, n int) []byte { return of[n*page : (n+1)*page] }
	switch chance.IntN(7) {
	case 0:
		bit := byte(1) << chance.IntN(8)
		d[at] ^= bit
		return d, fmt.Sprintf("bit %02x of byte %d flipped", bit, at)
	case 1:
		clear(pageOf(d, one))
		return d, fmt.Sprintf("page %d zeroed", one)
	case 2:
		for i := range pageOf(d, one) {
			d[one*page+i] = byte(chance.Uint32())
		}
		return d, fmt.Sprintf("page %d random", one)
	case 3:
		copy(pageOf(d, one), pageOf(data, other))
		copy(pageOf(d, other), pageOf(data, one))
		return d, fmt.Sprintf("pages %d and %d swapped", one, other)
	case 4:
		copy(pageOf(d, one), pageOf(data, other))
		return d, fmt.Sprintf("page %d is a copy of page %d", one, other)
	case 5:
		return d[:at], fmt.Sprintf("cut at %d", at)
	default:
		end := min(at+size, len(d))
		clear(d[at:end])
		return d, fmt.Sprintf("bytes %d to %d zeroed", at, end)
	}
}

// TestDamagedFile: a journal file with any damage is rejected and not modified, or its
// contents are unharmed. No damage changes them silently.
func TestDamagedFile(t *testing.T) {
	dir := testneeds.MemoryDir(t)
	path := filepath.Join(dir, "journal.db")
	b := openBolt(t, path)
	commitChange(t, b, Change{FrameworkID: "f1", Documents: map[string][]byte{"quota": []byte("V100=8")}})
	for i := range 40 {
		j := testJob(fmt.Sprintf("job-%02d", i), 1+i%7)
		commitChange(t, b, Change{Jobs: []*job.Job{j}, Tasks: j.Tasks})
		if i%4 == 0 {
			commitChange(t, b, Change{Removed: []job.RunID{{Name: fmt.Sprintf("job-%02d", i/2), Run: 1}}})
		}
	}
	want := loadContents(t, b)
	closeJournal(t, b)
	data := readFileBytes(t, path)
	const seed = 7
	chance := rand.New(rand.NewPCG(seed, seed))
	refused, runs := 0, damageRuns(150)
	for i := range runs {
		damaged, what := damageFile(data, chance)
		path := filepath.Join(dir, fmt.Sprint(i)) // bbolt may keep a damaged file locked
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := openAndLoad(path)
		switch {
		case err == nil:
			if diff := diffContents(want, got); diff != "" {
				t.Errorf("damage %d, %s: loaded other contents: %s", i, what, diff)
			}
		case !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrEmptied):
			t.Errorf("damage %d, %s: got %v", i, what, err)
		default:
			refused++
			if !bytes.Equal(damaged, readFileBytes(t, path)) {
				t.Errorf("damage %d, %s: the refused file was changed", i, what)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if refused < runs/4 {
		t.Errorf("only %d of %d damaged files were refused", refused, runs)
	}
	t.Logf("%d of %d damaged files were refused, the others were unharmed", refused, runs)
}

// TestDamagedZnode removes, empties and changes each znode of a journal: opening and following
// it fail, or its contents are unharmed.
func TestDamagedZnode(t *testing.T) {
	t.Parallel()
	s := newSession(t, zktest.StartServer(t).Addr())
	z := openZooKeeper(t, s, "/original")
	commitChange(t, z, Change{FrameworkID: "f1", Documents: map[string][]byte{"quota": []byte("V100=8")}})
	commitChange(t, z, putJob("a"))
	z.compact.startSnapshot(z)
	z.compact.finishSnapshot(z, <-z.compact.finished)
	commitChange(t, z, putJob("b"))
	size := 1 << 10
	if testneeds.IsLongRun() {
		size = 600 << 10 // an entry in parts
	}
	large := largeJob("c", size)
	commitChange(t, z, Change{Jobs: []*job.Job{large}, Tasks: large.Tasks})
	commitChange(t, z, putJob("d"))
	want := loadContents(t, z)
	closeJournal(t, z)
	names := listZnodes(t, s, "/original", "")
	chance := rand.New(rand.NewPCG(8, 8))
	tries := 0
	for _, name := range names {
		damages := map[string]func(path string) error{
			"removed": func(path string) error { return removeTree(s, path) },
			"emptied": func(path string) error { _, err := s.Conn.Set(path, nil, -1); return err },
		}
		for range damageRuns(2) / 2 {
			at := chance.IntN(1 << 20)
			damages[fmt.Sprintf("changed at %d", at)] = func(path string) error {
				data, _, err := s.Conn.Get(path)
				if err != nil || len(data) == 0 {
					return err
				}
				data[at%len(data)] ^= byte(1) << (at % 8)
				_, err = s.Conn.Set(path, data, -1)
				return err
			}
		}
		if name == "" {
			delete(damages, "removed") // without any znode it is a new journal
		}
		for what, damage := range damages {
			tries++
			path := fmt.Sprintf("/damaged-%d", tries)
			for _, n := range names {
				data, _, err := s.Conn.Get("/original" + n)
				if err == nil {
					_, err = s.Conn.Create(path+n, data, 0, s.ACL)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := damage(path + name); err != nil {
				t.Fatal(err)
			}
			followed, followErr := followOnce(s, path)
			got, err := openAndLoadZooKeeper(t, s, path)
			for who, r := range map[string]struct {
				got JournalContents
				err error
			}{"leader": {got, err}, "standby": {followed, followErr}} {
				if r.err == nil {
					if diff := diffContents(want, r.got); diff != "" {
						t.Errorf("%s %s: the %s loaded other contents: %s", name, what, who, diff)
					}
				} else if !errors.Is(r.err, ErrCorrupt) && !errors.Is(r.err, ErrNewer) {
					t.Errorf("%s %s: the %s got %v", name, what, who, r.err)
				}
			}
			if err := removeTree(s, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d damages of %d znodes", tries, len(names))
}

// listZnodes returns the names of the znodes below path, parents first, starting with "".
func listZnodes(t *testing.T, s *zkconn.Session, path, name string) []string {
	t.Helper()
	children, _, err := s.Conn.Children(path + name)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(children)
	all := []string{name}
	for _, c := range children {
		all = append(all, listZnodes(t, s, path, name+"/"+c)...)
	}
	return all
}

func removeTree(s *zkconn.Session, path string) error {
	children, _, err := s.Conn.Children(path)
	for i := 0; err == nil && i < len(children); i++ {
		err = removeTree(s, path+"/"+children[i])
	}
	if err == nil {
		err = s.Conn.Delete(path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

func openAndLoadZooKeeper(t *testing.T, s *zkconn.Session, path string) (JournalContents, error) {
	z, err := OpenZooKeeper(testTimeout(t), ZooKeeperConfig{Session: s, Path: path, Log: discardLog()})
	if err != nil {
		return JournalContents{}, err
	}
	return z.Load(testTimeout(t))
}

// errUpToDate ends a follower.
var errUpToDate = errors.New("up to date")

// onceReplica ends its follower when it is up to date.
type onceReplica struct {
	*testReplica
	all  *contentsReplica
	done context.CancelCauseFunc
}

// contentsReplica is the contents that a follower delivered, including documents.
type contentsReplica struct{ image *contentsImage }

func (r *contentsReplica) apply(c Change) error {
	all, err := encodeChange(c)
	if err != nil {
		return err
	}
	return r.image.applyRecords(all)
}

func (r onceReplica) ReplaceAll(all JournalContents) {
	r.all.image = newImage()
	c := Change{FrameworkID: all.FrameworkID, Jobs: all.Jobs, Documents: all.Documents}
	for _, j := range all.Jobs {
		c.Tasks = append(c.Tasks, j.Tasks...)
	}
	r.ApplyChange(c)
}

func (r onceReplica) ApplyChange(c Change) {
	if err := r.all.apply(c); err != nil {
		r.done(err)
	}
}

func (r onceReplica) ConfirmUpToDate(time.Time) { r.done(errUpToDate) }

// followOnce returns what a follower delivers until it is up to date.
func followOnce(s *zkconn.Session, path string) (JournalContents, error) {
	limited, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	ctx, cancel := context.WithCancelCause(limited)
	defer cancel(nil)
	r := onceReplica{newTestReplica(), &contentsReplica{newImage()}, cancel}
	if err := FollowJournal(ctx, s, path, r); !errors.Is(err, errUpToDate) {
		return JournalContents{}, err
	}
	return r.all.image.decodeContents(context.Background())
}
