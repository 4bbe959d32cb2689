package framework

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/internal/testing/mesostest"
)

const (
	// listedAgents is the number of agents, each with listedGPUs GPUs.
	listedAgents = 1000
	listedGPUs   = 8
	// pagesOfList is how many pages of each list are read, from the first on.
	pagesOfList = 16
)

// BenchmarkLists reads the GPUs of a large cluster and a long queue over HTTP: the first
// pages, and the whole list at once.
func BenchmarkLists(b *testing.B) {
	c := mesostest.NewCluster(b, 0) // offers no GPUs
	addManyAgents(c)
	path := filepath.Join(b.TempDir(), "journal.db")
	fillJournal(b, path, listedJobs, listedJobs)
	in := startInstance(b, c, SchedulerConfig{JournalPath: path})
	defer in.stopAndWait(b)
	if _, err := in.ListJobsPage(context.Background(), api.JobQuery{PageRequest: api.PageRequest{Limit: 1}}); err != nil { // waits for the start
		b.Fatal(err)
	}
	for _, list := range []struct {
		path    string
		entries int
	}{{"/v1/gpus", listedAgents * listedGPUs}, {"/v1/queue", listedJobs}} {
		b.Run(list.path[len("/v1/"):], func(b *testing.B) { readBothWays(b, in, list.path, list.entries) })
	}
}

func readBothWays(b *testing.B, in *testInstance, path string, entries int) {
	var first, pages, whole []time.Duration
	var ofPages, ofWhole time.Duration // CPU time, including the client's
	for b.Loop() {
		read, after, spent := 0, "", cputime.Read(b)
		for range pagesOfList {
			began := time.Now()
			n, next := readPart(b, in, path, pageOfJobs, after)
			took := time.Since(began)
			if pages = append(pages, took); after == "" {
				first = append(first, took)
			}
			read += n
			after = next
		}
		between, began := cputime.Read(b), time.Now()
		n, _ := readPart(b, in, path, 0, "")
		whole = append(whole, time.Since(began))
		ofPages, ofWhole = ofPages+between-spent, ofWhole+cputime.Read(b)-between
		if n != entries || read != pagesOfList*pageOfJobs {
			b.Fatalf("%s: %d by pages and %d at once, want %d and %d", path, read, n, pagesOfList*pageOfJobs, entries)
		}
	}
	b.ReportMetric(float64(ofPages.Microseconds())/1000/float64(len(pages)), "cpu-ms/page")
	b.ReportMetric(float64(ofWhole.Microseconds())/1000/float64(len(whole)), "cpu-ms/whole")
	reportPages(b, first, "first")
	reportPages(b, pages, "page")
	reportPages(b, whole, "whole")
}

// readPart reads a page, or the whole list if limit is 0. It returns the number of entries and the next cursor.
func readPart(b *testing.B, in *testInstance, path string, limit int, after string) (n int, next string) {
	b.Helper()
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	if after != "" {
		query.Set("after", after)
	}
	res, err := http.Get("http://" + in.addr + path + "?" + query.Encode())
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	var list struct {
		GPUs []api.GPUView
		Jobs []api.QueuedJob
		Next string
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%s: %s, %v", path, res.Status, err)
	}
	return len(list.GPUs) + len(list.Jobs), list.Next
}

// addManyAgents makes the master list listedAgents copies of its agent.
func addManyAgents(c *mesostest.FakeCluster) {
	like := c.Agents.Agents[0]
	c.Agents = master.Response_GetAgents{}
	for i := range listedAgents {
		a := like
		a.AgentInfo.ID, a.AgentInfo.Hostname = &mesos.AgentID{Value: fmt.Sprintf("agent-%d", i+1)}, fmt.Sprintf("host-%04d", i+1)
		a.TotalResources = slices.Clone(like.TotalResources)
		for n := range a.TotalResources {
			switch r := &a.TotalResources[n]; r.Name {
			case "gpus":
				r.Scalar = &mesos.Value_Scalar{Value: listedGPUs}
			case "gpu_ids":
				r.Set = &mesos.Value_Set{}
				for id := range listedGPUs {
					r.Set.Item = append(r.Set.Item, fmt.Sprintf("GPU-%04d-%d", i, id))
				}
			}
		}
		c.Agents.Agents = append(c.Agents.Agents, a)
	}
}
