package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// The examples run against a scheduler in this process: see example_cluster_test.go.

// Submit a job and wait until it has ended.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(schedulerAddress())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	view, err := c.SubmitJob(ctx, job.Spec{
		Name:    "train",
		Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}},
		CPUs:    0.1, MemMiB: 256,
		Command: []string{"sh", "-c", "exit 3"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	view, err = c.WaitForJob(ctx, view.Spec.Name)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(view.Spec.Name, view.State, *view.ExitCode)
	// Output: train FAILED 3
}

// Follow the output of a task until it ends.
func ExampleClient_ReadTaskOutput() {
	ctx, c := exampleContext(), newExampleClient()
	view, err := c.SubmitJob(ctx, cpuJob("hello", "echo hello; echo again"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for part, err := range c.ReadTaskOutput(ctx, view.Tasks[0].ID, client.OutputOptions{Follow: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		os.Stdout.Write(part.Output())
	}
	// Output:
	// hello
	// again
}

// Print the states of a job's tasks until the job has ended.
func ExampleClient_FollowEvents() {
	ctx, c := exampleContext(), newExampleClient()
	if _, err := c.SubmitJob(ctx, cpuJob("watched", "true")); err != nil {
		fmt.Println(err)
		return
	}
	for event, err := range c.FollowEvents(ctx, "watched") {
		if err != nil {
			fmt.Println(err)
			return
		}
		if !event.State.IsLive() {
			fmt.Println(event.Job, event.State)
			break
		}
	}
	// Output: watched FINISHED
}

// List the GPUs of the cluster.
func ExampleClient_EachGPU() {
	ctx, c := exampleContext(), newExampleClient()
	for g, err := range c.EachGPU(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(g.Type, g.MemMiB, "MiB")
	}
	// Output:
	// V100 16160 MiB
	// K80 11441 MiB
}

// Distinguish errors by the scheduler's code.
func ExampleProblem() {
	ctx, c := exampleContext(), newExampleClient()
	_, err := c.GetJob(ctx, "missing")
	var p *client.Problem
	if errors.As(err, &p) && p.Code == client.CodeJobNotFound {
		fmt.Println(p.Status, p.Name)
	}
	// Output: 404 missing
}

// A client of a highly available scheduler with TLS, a token, and shorter timeouts.
func ExampleNew() {
	token, warning, err := client.ReadToken("/etc/mesos-gpu/token")
	if err != nil {
		fmt.Println(err)
		return
	}
	if warning != "" {
		fmt.Fprintln(os.Stderr, warning)
	}
	c, err := client.New("https://s1:8080,https://s2:8080",
		client.WithToken(token),
		client.WithTrustedCA("/etc/mesos-gpu/ca.pem"),
		client.WithTimeouts(client.Timeouts{Connect: time.Second, Leader: 10 * time.Second}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
}

func cpuJob(name, script string) job.Spec {
	return job.Spec{Name: name, CPUs: 0.1, MemMiB: 256, Command: []string{"sh", "-c", script}}
}
