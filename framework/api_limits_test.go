package framework

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
)

// TestLimitsFitDescriptors checks that the limits of the API leave a quarter of the descriptors to
// the scheduler, however few there are, and that they are the defaults where enough exist.
func TestLimitsFitDescriptors(t *testing.T) {
	for _, descriptors := range []int{16, 300, 1024, 4096, 65536} {
		l := (&APIConfig{}).fitLimits(descriptors, frameworktest.DiscardLog())
		if used := l.connections + l.Streams + l.Requests + l.Lists; used > descriptors*3/4 ||
			min(l.connections, l.Streams, l.Requests, l.Lists, l.connectionsPerAddress) < 1 {
			t.Errorf("%d descriptors: %+v", descriptors, l)
		}
	}
	own := APIConfig{MaxConnections: 10, MaxStreams: 20, MaxLists: 30, MaxRequests: 40, ClientPercent: 50}
	if l := own.fitLimits(65536, frameworktest.DiscardLog()); l.connections != 10 || l.connectionsPerAddress != 5 ||
		l.Streams != 20 || l.Lists != 30 || l.Requests != 40 || l.ClientPercent != 50 {
		t.Errorf("got %+v", l)
	}
	l := (&APIConfig{}).fitLimits(65536, frameworktest.DiscardLog())
	if l.connections != DefaultMaxConnections || l.Streams != DefaultMaxStreams || l.Lists != DefaultMaxLists ||
		l.Requests != DefaultMaxRequests || l.ClientPercent != DefaultClientPercent {
		t.Errorf("got %+v", l)
	}
	for _, bad := range []APIConfig{{MaxLists: -1}, {ClientPercent: 101}, {ClientPercent: -1}} {
		if bad.checkLimits() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// hostileAddress is the environment variable that makes TestHostileClient a client of that address.
const hostileAddress = "MESOS_GPU_TEST_HOSTILE_ADDRESS"

// hostileConnections is how many connections the client opens.
const hostileConnections = 400

// TestHostileClient is the program of a client in another process, with descriptors of its own. It
// keeps connections open until its standard input ends.
func TestHostileClient(t *testing.T) {
	address := os.Getenv(hostileAddress)
	if address == "" {
		return // started by the test below
	}
	for range hostileConnections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(waitTimeout))
		fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", address)
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
		}
	}
	fmt.Println("connections are open")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestMasterIsReachedDespiteClients checks that the scheduler subscribes again while a client has
// tried to take more descriptors than the process has.
func TestMasterIsReachedDespiteClients(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	few.Cur = uint64(len(open)) + hostileConnections/2
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) })
	c := mesostest.NewCluster(t, 1)
	in := startInstance(t, c, SchedulerConfig{JournalPath: t.TempDir() + "/journal.db", API: APIConfig{ClientPercent: 100}})
	defer in.stopAndWait(t)
	c.AwaitCall(t, 1, scheduler.Call_SUBSCRIBE, nil)

	client := exec.Command(os.Args[0], "-test.run=^TestHostileClient$")
	client.Env = append(os.Environ(), hostileAddress+"="+in.addr)
	stdin, err := client.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		if err := client.Wait(); err != nil {
			t.Error(err)
		}
	}()
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), "connections are open") {
			break
		}
	}
	c.DropSubscription()
	c.AwaitCall(t, 2, scheduler.Call_SUBSCRIBE, nil)
	if _, err := in.GetHealth(frameworktest.Timeout(t)); err != nil {
		t.Errorf("a client that came later: %v", err)
	}
}
