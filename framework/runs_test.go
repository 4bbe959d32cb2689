package framework

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// runTrain submits a run of the job "train" that writes its output and ends in the state.
func runTrain(t *testing.T, c *mesostest.FakeCluster, in *testInstance, output string, end mesos.TaskState) api.JobView {
	t.Helper()
	view, err := in.SubmitJob(longTimeout(t), frameworktest.JobSpec("train", 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	task := awaitState(t, in, "train", job.Running).Tasks[0]
	c.SetFile(master.SandboxFilePath("framework-1", task.ID, "stdout"), output)
	c.EndTask(task.ID, end, "", "0")
	if _, err := in.WaitForJob(longTimeout(t), view.RunID().String()); err != nil {
		t.Fatal(err)
	}
	return view
}

func readOutput(t *testing.T, in *testInstance, task string) string {
	t.Helper()
	var text []byte
	for part, err := range in.ReadTaskOutput(longTimeout(t), task, client.OutputOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part.Output()...)
	}
	return string(text)
}

// checkTrainRuns checks what the API returns for the runs of "train": one failed, one finished.
func checkTrainRuns(t *testing.T, in *testInstance, when string) {
	t.Helper()
	ctx := longTimeout(t)
	runs, err := in.ListRuns(ctx, "train")
	if err != nil || len(runs) != 2 || runs[0].Run != 1 || runs[0].State != job.Failed || runs[1].Run != 2 || runs[1].State != job.Finished {
		t.Fatalf("%s: runs %+v, %v", when, runs, err)
	}
	for i, name := range []string{"train@1", "train@2", "train"} {
		view, err := in.GetJob(ctx, name)
		if diff := cmp.Diff(runs[min(i, 1)], view); diff != "" || err != nil {
			t.Errorf("%s: %s differs from its entry, %v:\n%s", when, name, err, diff)
		}
		if got, want := readOutput(t, in, view.Tasks[0].ID), []string{"one", "two", "two"}[i]; got != want {
			t.Errorf("%s: the output of %s is %q, want %q", when, name, got, want)
		}
	}
	jobs, err := in.ListJobs(ctx)
	if diff := cmp.Diff(runs[1:], jobs); diff != "" || err != nil {
		t.Errorf("%s: jobs (-want +got) %v:\n%s", when, err, diff)
	}
	for _, name := range []string{"train@3", "train@0", "train@x", "unknown@1"} {
		_, err := in.GetJob(ctx, name)
		wantProblem(t, err, http.StatusNotFound, name)
	}
	_, err = in.ListRuns(ctx, "unknown")
	wantProblem(t, err, http.StatusNotFound, "unknown")
	for ev, err := range in.StreamEvents(ctx, "train@1") { // starts with the states of its only task
		if err != nil || ev.Run != 1 || ev.State != job.Failed || ev.Task != runs[0].Tasks[0].ID {
			t.Errorf("%s: an event of the first run is %+v, %v", when, ev, err)
		}
		break
	}
}

// TestRunsSurviveRestart: earlier runs of a job keep their record and their output, after a restart too. A kill of an
// earlier run does not affect the newest one.
func TestRunsSurviveRestart(t *testing.T) {
	c, path := mesostest.NewCluster(t, 1), filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	runTrain(t, c, in, "one", mesos.TASK_FAILED)
	runTrain(t, c, in, "two", mesos.TASK_FINISHED)
	checkTrainRuns(t, in, "before a restart")
	in.stopAndWait(t)
	in = startWithJournal(t, c, path)
	checkTrainRuns(t, in, "after a restart")

	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "train", job.Running)
	if err := in.KillJob(ctx, "train@2"); err != nil {
		t.Error(err)
	}
	if view, err := in.GetJob(ctx, "train"); err != nil || view.Run != 3 || view.State != job.Running {
		t.Errorf("the third run is %+v, %v", view, err)
	}
	if err := in.KillJob(ctx, "train@3"); err != nil {
		t.Error(err)
	}
	if view, err := in.WaitForJob(ctx, "train"); err != nil || view.State != job.Killed {
		t.Errorf("the third run is %s, %v", view.State, err)
	}
	in.stopAndWait(t)
}

// TestRunsSurviveFailover: a standby shows the same runs, and so does the next leader.
func TestRunsSurviveFailover(t *testing.T) {
	c, server := mesostest.NewCluster(t, 1), zktest.StartServer(t)
	first := startReplica(t, c, server.Addr(), lasting, nil)
	awaitRole(t, first, api.Leader)
	second := startReplica(t, c, server.Addr(), lasting, nil)
	awaitRole(t, second, api.Standby)
	runTrain(t, c, first, "one", mesos.TASK_FAILED)
	runTrain(t, c, first, "two", mesos.TASK_FINISHED)
	checkTrainRuns(t, first, "on the leader")
	if _, err := second.GetJob(longTimeout(t), "train@2"); err != nil { // waits until the standby has it
		t.Error(err)
	}
	awaitState(t, second, "train@2", job.Finished)
	checkTrainRuns(t, second, "on the standby")
	first.stopAndWait(t)
	awaitRole(t, second, api.Leader)
	checkTrainRuns(t, second, "after the failover")
	second.stopAndWait(t)
}

// TestRerunOverREST: a rerun has the specification of the run, and with Failed only its failed tasks run. Other tasks
// keep their output. A repeated request returns the same run.
func TestRerunOverREST(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := longTimeout(t)
	spec := frameworktest.JobSpec("train", 2, 0)
	spec.Env = map[string]string{"SEED": "7"}
	if _, err := in.SubmitJob(ctx, spec); err != nil {
		t.Fatal(err)
	}
	_, err := in.RerunJob(ctx, "train", api.RerunRequest{})
	wantProblem(t, err, http.StatusConflict, "kill it first")
	tasks := awaitState(t, in, "train", job.Running).Tasks
	c.SetFile(master.SandboxFilePath("framework-1", tasks[0].ID, "stdout"), "done")
	c.EndTask(tasks[0].ID, mesos.TASK_FINISHED, "", "0")
	c.EndTask(tasks[1].ID, mesos.TASK_FAILED, "", "3")
	if _, err := in.WaitForJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	again, err := in.RerunJob(ctx, "train", api.RerunRequest{Failed: true})
	if err != nil || again.Run != 2 || again.Tasks[0].State != job.Finished || again.Tasks[1].State != job.Waiting || again.Spec.Env["SEED"] != "7" {
		t.Fatalf("got %+v, %v", again, err)
	}
	if got := readOutput(t, in, again.Tasks[0].ID); got != "done" {
		t.Errorf("the output of the finished task is %q", got)
	}
	for ev, err := range in.StreamEvents(ctx, "train") {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Task == again.Tasks[1].ID && ev.State == job.Running {
			break
		}
	}
	c.EndTask(again.Tasks[1].ID, mesos.TASK_FINISHED, "", "0")
	if view, err := in.WaitForJob(ctx, "train"); err != nil || view.State != job.Finished {
		t.Errorf("the second run is %s, %v", view.State, err)
	}
	_, err = in.RerunJob(ctx, "train", api.RerunRequest{Failed: true})
	wantProblem(t, err, http.StatusUnprocessableEntity, "every task of job")
	_, err = in.RerunJob(ctx, "unknown", api.RerunRequest{})
	wantProblem(t, err, http.StatusNotFound, "unknown")
	first, err := in.RerunJob(ctx, "train@1", api.RerunRequest{})
	if err != nil || first.Run != 3 || len(first.Tasks) != 2 || first.State.IsLive() == false {
		t.Errorf("got %+v, %v", first, err)
	}
	in.stopAndWait(t)
}

// TestUpdateOverREST: a service gets another specification, its tasks are replaced, and a restart continues the update.
func TestUpdateOverREST(t *testing.T) {
	c, path := mesostest.NewCluster(t, 1), filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	ctx := longTimeout(t)
	spec := frameworktest.ServiceSpec("web", 2)
	if _, err := in.SubmitJob(ctx, spec); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "web", job.Running)
	spec.Env = map[string]string{"VERSION": "2"}
	if view, err := in.UpdateJob(ctx, spec); err != nil || view.Version != 1 || view.Spec.Env["VERSION"] != "2" {
		t.Fatalf("got %+v, %v", view, err)
	}
	in.stopAndWait(t)
	in = startWithJournal(t, c, path)
	for _, err := range in.StreamEvents(ctx, "web") {
		if err != nil {
			t.Fatal(err)
		}
		view, err := in.GetJob(ctx, "web")
		if err != nil {
			t.Fatal(err)
		}
		done := 0
		for _, task := range view.Tasks {
			if task.Version == 1 && task.State == job.Running && task.Attempt == 2 {
				done++
			}
		}
		if done == 2 {
			break
		}
	}
	_, err := in.UpdateJob(ctx, frameworktest.ServiceSpec("unknown", 1))
	wantProblem(t, err, http.StatusNotFound, "unknown")
	_, err = in.UpdateJob(ctx, frameworktest.JobSpec("web", 2, 0))
	wantProblem(t, err, http.StatusUnprocessableEntity, "service: an update cannot change it")
	in.stopAndWait(t)
}
