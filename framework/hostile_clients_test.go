package framework

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/testneeds"
)

const (
	// hostileMemory limits the resident anonymous memory of the process, including the clients
	// and the master of the test, with 100,000 pending tasks. It does not include pages of the
	// journal's file, which the kernel reclaims when it needs memory.
	hostileMemory = 1280 << 20
	// hostileSubmission limits how long another user's submission takes during the attack, in
	// which the clients use the same two cores.
	hostileSubmission = 10 * time.Second
	// hostileDuration is how long the clients attack.
	hostileDuration = 40 * time.Second
	// The numbers of clients exceed the limits of the API.
	hostileStreams, hostileLists, hostileIdle = 1200, 100, 1500
	// hostileReaders is the number of clients of another user that read their event streams for
	// readerDuration, and then again.
	hostileReaders = 100
	readerDuration = 15 * time.Second
	// Jobs of others start at most hostileDelay times as late as without the attack, and
	// hostileMargin later: the clients use the same two cores.
	hostileDelay, hostileMargin = 2, 2 * time.Second
	// honestStarts is how many starts are measured before the attack.
	honestStarts = 5
)

// TestHostileClientsAreBounded has clients that do not read open more event streams, lists and
// connections than the limits allow, all with the rights of one user who may use the whole of each
// limit, and clients of a second user that read the states of all jobs again and again. The memory
// stays below its limit, and other users' jobs are submitted and started.
func TestHostileClientsAreBounded(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long runs this test: it takes a minute and a gigabyte")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(GCPercent))
	path := filepath.Join(t.TempDir(), "journal.db")
	fillJournal(t, path, listedJobs, listedJobs-1)
	c := mesostest.NewCluster(t, 0)
	in := startInstance(t, c, SchedulerConfig{
		JournalPath: path,
		API:         APIConfig{ClientPercent: 90, MaxConnections: 4096},
		Sched:       sched.SchedulerSettings{MaxLiveTasks: 4 * listedJobs},
	})
	defer in.stopAndWait(t)
	if _, err := in.ListJobsPage(frameworktest.Timeout(t), api.JobQuery{PageRequest: api.PageRequest{Limit: 1}}); err != nil { // waits for the start
		t.Fatal(err)
	}
	var usual []time.Duration
	for i := range honestStarts {
		_, started := startFrom(t, c, in.addr, fmt.Sprintf("usual-%d", i))
		usual = append(usual, started)
	}
	before := memoryStatus(t, "RssAnon")
	ctx, cancel := context.WithTimeout(t.Context(), hostileDuration)
	defer cancel()
	var running sync.WaitGroup
	attack := func(clients int, one func()) {
		for range clients {
			running.Go(func() {
				for ctx.Err() == nil {
					one()
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
	attack(hostileStreams, func() { holdConnection(ctx, in.addr, "/v1/events") })
	attack(hostileLists, func() { holdConnection(ctx, in.addr, "/v1/jobs") })
	attack(hostileLists, func() { holdConnection(ctx, in.addr, "/v1/queue") })
	attack(4, func() { readAll(ctx, in.addr, "/v1/jobs") })
	attack(hostileReaders, func() { readStream(ctx, "127.0.0.3", in.addr) })
	attack(hostileIdle, func() { holdConnection(ctx, in.addr, "") })
	var peak int64
	running.Go(func() {
		for ctx.Err() == nil {
			peak = max(peak, memoryStatus(t, "RssAnon"))
			time.Sleep(20 * time.Millisecond)
		}
	})
	longest := time.Duration(0)
	var starts []time.Duration
	for i := 0; ctx.Err() == nil; i++ {
		submitted, started := startFrom(t, c, in.addr, fmt.Sprintf("honest-%d", i))
		longest, starts = max(longest, submitted), append(starts, started)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	running.Wait()
	t.Logf("%d MiB before, at most %d MiB during the attack; the longest submission took %s", before>>20, peak>>20, longest.Round(time.Millisecond))
	normal, late := median(usual), median(starts)
	t.Logf("jobs of others started after %s before, after %s (at most %s) during the attack", normal, late, slices.Max(starts))
	if late > hostileDelay*normal+hostileMargin {
		t.Errorf("a job of another user started after %s, without the attack after %s", late, normal)
	}
	if longest > hostileSubmission {
		t.Errorf("a submission took %s, want at most %s", longest.Round(time.Millisecond), hostileSubmission)
	}
	if peak > hostileMemory {
		t.Errorf("the process took up to %d MiB, want at most %d MiB", peak>>20, hostileMemory>>20)
	}
}

// holdConnection sends a request and reads nothing until ctx ends or the server closes the
// connection. With an empty path it sends nothing.
func holdConnection(ctx context.Context, address, path string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	if path != "" {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, address)
	}
	select {
	case <-ctx.Done():
	case <-time.After(15 * time.Second):
	}
}

func readAll(ctx context.Context, address, path string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return
	}
	if res, err := http.DefaultClient.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// readStream reads the event stream of all jobs from a client address for readerDuration.
func readStream(ctx context.Context, from, address string) {
	ctx, cancel := context.WithTimeout(ctx, readerDuration)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/events", nil)
	if err != nil {
		return
	}
	if res, err := clientFrom(from, 0).Do(r); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// clientFrom returns a client with an address of its own, as another user would have.
func clientFrom(from string, timeout time.Duration) *http.Client {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: timeout}
}

// startFrom submits a job that needs no GPU, and returns how long that takes, and how long after it the agent has the task.
func startFrom(t *testing.T, c *mesostest.FakeCluster, address, name string) (submitted, started time.Duration) {
	t.Helper()
	began := time.Now()
	if err := submitFrom(t.Context(), "127.0.0.2", address, name); err != nil {
		t.Errorf("submission of %s: %v", name, err)
		return time.Since(began), 0
	}
	submitted = time.Since(began)
	for time.Since(began) < waitTimeout {
		running := c.RunningTasks()
		if i := slices.IndexFunc(running, func(id string) bool { return strings.HasPrefix(id, name+".") }); i >= 0 {
			started = time.Since(began)
			c.EndTask(running[i], mesos.TASK_FINISHED, "", "0")
			return submitted, started
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%s did not start within %s", name, waitTimeout)
	return submitted, waitTimeout
}

// median returns the middle of the durations, which it sorts.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// submitFrom submits a job from a client address.
func submitFrom(ctx context.Context, from, address, name string) error {
	body := fmt.Sprintf(`{"name":%q,"command":["true"]}`, name)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/jobs", strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := clientFrom(from, time.Minute).Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s", res.Status, text)
	}
	return nil
}

// memoryStatus returns a value of /proc/self/status in bytes.
func memoryStatus(t *testing.T, key string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + key + `:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s is not in /proc/self/status", key)
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}
