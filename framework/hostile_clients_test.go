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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mesos-gpu/framework/api"
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
)

// TestHostileClientsAreBounded has clients that do not read open more event streams, lists and
// connections than the limits allow, all with the rights of one user who may use the whole of each
// limit. The memory stays below its limit and other users' jobs are submitted.
func TestHostileClientsAreBounded(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long runs this test: it takes a minute and a gigabyte")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(GCPercent))
	path := filepath.Join(t.TempDir(), "journal.db")
	fillJournal(t, path, listedJobs, listedJobs-1)
	in := startInstance(t, mesostest.NewCluster(t, 0), SchedulerConfig{JournalPath: path, API: APIConfig{ClientPercent: 90, MaxConnections: 4096}})
	defer in.stopAndWait(t)
	if _, err := in.ListJobsPage(frameworktest.Timeout(t), api.JobQuery{PageRequest: api.PageRequest{Limit: 1}}); err != nil { // waits for the start
		t.Fatal(err)
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
	attack(hostileIdle, func() { holdConnection(ctx, in.addr, "") })
	var peak int64
	running.Go(func() {
		for ctx.Err() == nil {
			peak = max(peak, memoryStatus(t, "RssAnon"))
			time.Sleep(20 * time.Millisecond)
		}
	})
	longest := time.Duration(0)
	for i := 0; ctx.Err() == nil; i++ {
		began := time.Now()
		// Another address, as another user would have.
		if err := submitFrom(t.Context(), "127.0.0.2", in.addr, fmt.Sprintf("honest-%d", i)); err != nil {
			t.Errorf("submission %d: %v", i, err)
		}
		longest = max(longest, time.Since(began))
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	running.Wait()
	t.Logf("%d MiB before, at most %d MiB during the attack; the longest submission took %s", before>>20, peak>>20, longest.Round(time.Millisecond))
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

// submitFrom submits a job from a client address.
func submitFrom(ctx context.Context, from, address, name string) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: time.Minute}
	body := fmt.Sprintf(`{"name":%q,"command":["true"],"request":{"gpus":1}}`, name)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/jobs", strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := c.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusCreated && !strings.Contains(string(text), "100000") {
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
