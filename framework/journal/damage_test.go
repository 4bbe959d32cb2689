package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"mesos-gpu/internal/testneeds"
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
			commitChange(t, b, Change{Removed: []string{fmt.Sprintf("job-%02d", i/2)}})
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
