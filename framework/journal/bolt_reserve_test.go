package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// On a full disk the changes of recorded jobs are still recorded, also by the next process.
// More jobs are recorded until CheckSpace reports that half of the reserve is used, and
// again once there is space.
func TestFullDiskLeavesSpaceForChanges(t *testing.T) {
	dir := testneeds.MountSmallDisk(t, 4*reserveSize)
	path := filepath.Join(dir, "journal.db")
	b := openBolt(t, path)
	if err := b.CheckSpace(); err != nil {
		t.Fatal(err)
	}
	j := testJob("train", 500)
	commitChange(t, b, Change{FrameworkID: "f1", Jobs: []*job.Job{j}, Tasks: j.Tasks})
	free := testneeds.FillDisk(t, dir)
	if err := b.CheckSpace(); err != nil {
		t.Errorf("with the whole reserve: %v", err)
	}
	added := 0
	for err := error(nil); !errors.Is(err, ErrFull); err = b.CheckSpace() {
		if err != nil || added > 100 {
			t.Fatalf("after %d jobs: %v", added, err)
		}
		large := largeJob(fmt.Sprintf("large-%d", added), 256<<10)
		commitChange(t, b, Change{Jobs: []*job.Job{large}, Tasks: large.Tasks})
		added++
	}
	if added == 0 {
		t.Error("no job was recorded in half of the reserve")
	}
	for i := range 20 { // more than the reserve, if pages were not used again
		for n := range j.Tasks {
			j.Tasks[n].State, j.Tasks[n].KillRequested = job.Killed, time.Unix(int64(i+1), 0).UTC()
		}
		commitChange(t, b, Change{Tasks: j.Tasks})
		if i%5 == 0 {
			closeJournal(t, b)
			b = openBolt(t, path)
			if err := b.CheckSpace(); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "free space") {
				t.Errorf("a new process: %v, want ErrFull with the remedy", err)
			}
		}
	}
	free()
	if err := b.CheckSpace(); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
	all := loadContents(t, b)
	if len(all.Jobs) != 1+added {
		t.Errorf("%d jobs, want %d", len(all.Jobs), 1+added)
	}
	for _, got := range all.Jobs {
		if got.Spec.Name == "train" && got.Tasks[499].State != job.Killed {
			t.Errorf("task 499 is %s", got.Tasks[499].State)
		}
	}
	closeJournal(t, b)
}
