package socket_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/socket"
)

// fakeClaims confirms claims, except of GPU-1, which a container holds.
type fakeClaims struct{}

var holderOfGPU1 = gpu.ContainerDevices{Container: "other", Framework: "f", Task: "t", Devices: []string{"GPU-1"}}

func (fakeClaims) Claim(_ context.Context, c containers.ClaimRequest) (gpu.ContainerDevices, error) {
	for _, d := range c.Devices {
		if d == "GPU-1" {
			return gpu.ContainerDevices{}, fmt.Errorf("claim devices for container %s: %w", c.Container, &containers.DeviceHeldError{
				Container: c.Container, Device: d, Holders: []gpu.ContainerDevices{holderOfGPU1}, Reason: &allocation.RejectedError{Why: "taken", Held: d},
			})
		}
	}
	return gpu.ContainerDevices{Container: c.Container, Devices: c.Devices}, nil
}

func withClaims(cfg *socket.ServerConfig) { cfg.Claims = fakeClaims{} }

// The answer to a refused claim names the device, its holders and the remedy.
func TestClaimAnswers(t *testing.T) {
	d := newTestDaemon(t, withClaims)
	d.start(t)
	got, err := d.ClaimDevices(t.Context(), "c", []string{"GPU-0"})
	if diff := cmp.Diff(gpu.ContainerDevices{Container: "c", Devices: []string{"GPU-0"}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	_, err = d.ClaimDevices(t.Context(), "c", []string{"GPU-1"})
	want := &socket.ResponseError{
		Status: http.StatusConflict, Device: "GPU-1", Holders: []gpu.ContainerDevices{holderOfGPU1},
		Message: "claim devices for container c: GPU GPU-1 is held by container other (task t of framework f): " +
			"end the holder or wait for its end; mesos-gpu agent devices on this machine shows it",
	}
	said := (*socket.ResponseError)(nil)
	if !errors.As(err, &said) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := d.ClaimDevices(t.Context(), "../c", nil); !errors.As(err, &said) || said.Status != http.StatusBadRequest {
		t.Errorf("an invalid id: %v", err)
	}
}

// An executor claims for the container in whose cgroup it runs, and so may its task. Outside of
// containers every user may claim: the devices are what the agent gave the container.
func TestWhoMayClaim(t *testing.T) {
	for _, c := range []struct {
		name, cgroups, container, refusal string
	}{
		{"the executor itself", "4:devices:/mesos/c1\n0::/\n", "c1", ""},
		{"its task", "0::/mesos/c1/mesos/n\n", "c1", ""},
		{"another container", "0::/mesos/c1\n", "c2", `a process in container c1 may claim devices for that container only, not for "c2"`},
		{"one with its name as prefix", "0::/mesos/c1\n", "c10", "for that container only"},
		{"no container", "0::/system.slice/mesos-agent.service\n", "c1", ""},
		{"unknown process", "", "c1", "check whether process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			proc := t.TempDir()
			file := filepath.Join(proc, fmt.Sprint(os.Getpid()), "cgroup")
			if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.cgroups != "" {
				if err := os.WriteFile(file, []byte(c.cgroups), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := newTestDaemon(t, func(cfg *socket.ServerConfig) {
				withClaims(cfg)
				cfg.ProcRoot = proc
			})
			d.start(t)
			_, err := d.ClaimDevices(t.Context(), c.container, []string{"GPU-0"})
			said := (*socket.ResponseError)(nil)
			switch {
			case c.refusal == "" && err != nil:
				t.Error(err)
			case c.refusal != "" && (!errors.As(err, &said) || said.Status != http.StatusForbidden || !strings.Contains(said.Message, c.refusal)):
				t.Errorf("got %v, want 403 and %q", err, c.refusal)
			}
		})
	}
}

// claimDevices claims a device for a container, as the process that a test starts.
func claimDevices(args []string) {
	_, err := socket.NewDaemonClient(args[0]).ClaimDevices(context.Background(), args[1], []string{"GPU-0"})
	fmt.Println(err)
}

// A user who may only read otherwise may claim.
func TestRootOtherUsersMayClaim(t *testing.T) {
	d := newTestDaemon(t, withClaims)
	d.start(t)
	cmd := as(t, unprivileged, d.path, "c")
	cmd.Args[1] = "claim-devices"
	if out, err := cmd.Output(); err != nil || string(out) != "<nil>\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// Claims are not possible over TCP. A daemon without claims answers as one of an earlier version.
func TestClaimsNeedTheSocket(t *testing.T) {
	d := newTestDaemon(t, nil)
	d.start(t)
	said := (*socket.ResponseError)(nil)
	if _, err := d.ClaimDevices(t.Context(), "c", nil); !errors.As(err, &said) || said.Status != http.StatusNotFound {
		t.Errorf("without claims: %v", err)
	}
	server, err := socket.NewServer(func() socket.ServerConfig {
		cfg := socket.ServerConfig{Containers: d.containers, Devices: d.devices, Metrics: http.NotFoundHandler(), Log: quiet()}
		withClaims(&cfg)
		return cfg
	}())
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewUnstartedServer(nil).Listener
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.ServeReadOnly(ctx, listener) }()
	for method, want := range map[string]int{http.MethodPost: http.StatusForbidden, http.MethodGet: http.StatusMethodNotAllowed} {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+"/v1/claim", strings.NewReader(`{"container":"c"}`))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s over TCP: %s, want %d", method, answer.Status, want)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
