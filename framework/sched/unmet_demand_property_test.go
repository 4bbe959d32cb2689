package sched

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/job"
)

// TestUnmetDemandCountsTasksWithoutPlace checks that UnmetDemand counts the tasks that a plan leaves without a place, if only GPUs
// are scarce. Arguments must not change, and the order of the offers must not matter.
func TestUnmetDemandCountsTasksWithoutPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offers := genOffers(5).Draw(t, "cluster")
		waiting := genQueue(5, 6).Draw(t, "queue")
		policy := testPolicy()
		before := fmt.Sprintf("%+v %+v", offers, describeQueue(waiting))
		lacks := pending.FindUnmetDemand(pointersTo(offers), placement.PlanInput{Waiting: waiting}, policy)
		if after := fmt.Sprintf("%+v %+v", offers, describeQueue(waiting)); after != before {
			t.Fatalf("FindUnmetDemand changed its arguments:\n%s\n%s", before, after)
		}
		shuffled := rapid.Permutation(offers).Draw(t, "shuffled")
		if diff := cmp.Diff(lacks, pending.FindUnmetDemand(pointersTo(shuffled), placement.PlanInput{Waiting: waiting}, policy)); diff != "" {
			t.Fatalf("a different order of the offers gives a different result (-first +second):\n%s", diff)
		}
		specs := map[string]*job.Spec{}
		for i := range waiting {
			specs[waiting[i].Spec.Name] = waiting[i].Spec
		}
		want := map[string]int{}
		for _, r := range planOffers(offers, placement.PlanInput{Waiting: waiting}, policy).Unplaced {
			switch s := specs[r.Run.Name]; {
			case s.Request.GPUs == 0:
				continue
			case s.Gang:
				want["all"] += s.Tasks
			default:
				want["all"] += r.Missing
			}
			want[r.Run.Name] = 1
		}
		got := map[string]int{}
		for _, l := range lacks {
			got["all"] += l.Tasks
			for _, name := range l.Jobs {
				got[name] = 1
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("lacking, against what a plan leaves (-want +got):\n%s\n%+v", diff, lacks)
		}
	})
}
