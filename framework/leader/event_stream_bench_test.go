package leader

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

const (
	streams     = 500
	streamBurst = 50 // events after which all readers catch up
)

// BenchmarkEventStreams has 500 clients read the events of a scheduler with 500 jobs over
// HTTP. One operation is a burst of 50 events; ns/publish is the time for which an event
// blocks the scheduler's loop.
func BenchmarkEventStreams(b *testing.B) {
	l := newTestLoop(&orderedJournal{})
	for i := range streams {
		l.Model.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates(fmt.Sprintf("train-%03d", i), int64(i), job.Running)))
	}
	leads := New(l, Config{})
	server := httptest.NewServer(apiserver.NewHandler(func() apiserver.Backend {
		return apiserver.Backend{Reads: &apiserver.ReadBackend{Jobs: leads, Events: leads, Status: leads}}
	}, frameworktest.DiscardLog()))
	defer server.Close()
	defer l.Model.CloseListeners()
	var left atomic.Int64 // events that the clients together have not read yet
	left.Store(streams * streams)
	all := make(chan struct{}, 1) // has an element when none is left
	read := func() {
		if left.Add(-1) == 0 {
			all <- struct{}{}
		}
	}
	began := time.Now()
	for range streams {
		readStream(b, server.URL+"/v1/events?state=live", read)
	}
	<-all
	b.ReportMetric(time.Since(began).Seconds(), "s/500-begin")
	var publishing time.Duration
	spent := cputime.Read(b)
	b.ReportAllocs()
	for b.Loop() {
		left.Store(streams * streamBurst)
		at := time.Now()
		for i := range streamBurst {
			l.Model.ApplyRecorded(journal.Change{},
				[]sched.StateTransition{{Job: "train-001", TaskID: "train-001.0.1.c8dbz5x2q6a5", State: job.Running, Time: at, Message: fmt.Sprint("epoch ", i)}},
				nil, nil)
		}
		publishing += time.Since(at)
		<-all
	}
	events := float64(b.N * streamBurst)
	b.ReportMetric(float64(publishing.Nanoseconds())/events, "ns/publish")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/events, "ns/event")
	b.ReportMetric(float64((cputime.Read(b)-spent).Nanoseconds())/events/streams, "cpu-ns/event/client")
}

// BenchmarkInventoryStreams notifies 500 clients of one scheduler that agents or GPUs have
// changed. One operation is one change, received by all clients.
func BenchmarkInventoryStreams(b *testing.B) {
	l := newTestLoop(&orderedJournal{})
	leads := New(l, Config{})
	server := httptest.NewServer(apiserver.NewHandler(func() apiserver.Backend {
		return apiserver.Backend{Reads: &apiserver.ReadBackend{Jobs: leads, Events: leads, Status: leads}}
	}, frameworktest.DiscardLog()))
	defer server.Close()
	defer l.Model.CloseListeners()
	var left atomic.Int64
	all := make(chan struct{}, 1)
	for range streams {
		readStream(b, server.URL+"/v1/events?state=live&inventory=true", func() {
			if left.Add(-1) == 0 {
				all <- struct{}{}
			}
		})
	}
	spent := cputime.Read(b)
	for b.Loop() {
		left.Store(streams)
		l.Model.PublishInventoryChange()
		<-all
	}
	b.ReportMetric(float64((cputime.Read(b)-spent).Nanoseconds())/float64(b.N)/streams, "cpu-ns/event/client")
}

// readStream reads the stream until it ends, and calls each for each event.
func readStream(b *testing.B, url string, each func()) {
	res, err := http.Get(url)
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data: ") {
				each()
			}
		}
	}()
}
