package socket

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
)

// DeviceClaimer handles the claims of executors. It gives a container only
// devices that the Mesos agent gave it.
type DeviceClaimer interface {
	// Claim returns the container with its devices. The error is a
	// *containers.DeviceHeldError if another container holds one of them.
	Claim(context.Context, containers.ClaimRequest) (gpu.ContainerDevices, error)
}

// handleClaim claims the devices of a container. Executors may run as any user,
// and in the cgroup of their container, with their tasks. So all users may
// call it, and processes in a container's cgroup for that container only.
func (s *Server) handleClaim(r *http.Request) (any, error) {
	b, err := decodeBody[containers.ClaimRequest](r)
	if err != nil {
		return nil, err
	}
	peer := peerIdentity{claimDenial: "the caller is unknown"}
	if p, ok := r.Context().Value(peerKey{}).(*peerConn); ok {
		peer = p.peerIdentity
	}
	if peer.claimDenial == "" && peer.container != "" && peer.container != allocation.RootID(b.Container) {
		peer.claimDenial = fmt.Sprintf("a process in container %s may claim devices for that container only, not for %q", peer.container, b.Container)
	}
	if peer.claimDenial != "" {
		return nil, &statusError{http.StatusForbidden, errors.New(peer.claimDenial)}
	}
	if err := containers.CheckID(b.Container); err != nil {
		return nil, err
	}
	return s.cfg.Claims.Claim(r.Context(), b)
}

// ClaimDevices claims a container's devices before its task starts. It returns
// the container with what the agent gave it. A *ResponseError with status 409
// has the containers that hold a device.
func (c *DaemonClient) ClaimDevices(ctx context.Context, container string, devices []string) (gpu.ContainerDevices, error) {
	var holder gpu.ContainerDevices
	err := c.postJSON(ctx, "/v1/claim", containers.ClaimRequest{Container: container, Devices: devices}, &holder)
	return holder, err
}
