package socket

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/isolator/mig"
)

// MIGPartitioner handles the calls about MIG; mig.Partitioner implements it.
// If the call is at fault, errors of its methods wrap mig.ErrUnknownGPU or
// mig.ErrLayoutRejected.
type MIGPartitioner interface {
	ListGPUs() ([]mig.PartitionedGPU, error)
	RequestLayout(uuid string, layout []string) (pending bool, err error)
}

// layoutRequest has the names of profiles.
type layoutRequest struct {
	Layout []string `json:"layout"`
}

func (s *Server) handleListMIG(*http.Request) (any, error) { return s.cfg.MIGPartitioner.ListGPUs() }

func (s *Server) handleSetLayout(r *http.Request) (any, error) {
	body, err := decodeBody[layoutRequest](r)
	if err != nil {
		return nil, err
	}
	waits, err := s.cfg.MIGPartitioner.RequestLayout(r.PathValue("uuid"), body.Layout)
	return pendingResponse{waits}, err
}

// noPartitioner is the MIGPartitioner of a host without GPUs to partition.
type noPartitioner struct{}

func (noPartitioner) ListGPUs() ([]mig.PartitionedGPU, error)      { return []mig.PartitionedGPU{}, nil }
func (noPartitioner) RequestLayout(string, []string) (bool, error) { return false, mig.ErrUnknownGPU }

// ListMIG returns the GPUs in MIG mode with their partitions.
func (c *DaemonClient) ListMIG(ctx context.Context) ([]mig.PartitionedGPU, error) {
	var list []mig.PartitionedGPU
	err := c.getJSON(ctx, "/v1/mig", nil, &list)
	return list, err
}

// SetMIGLayout requests a layout of a GPU. waits is set if the layout is
// applied later.
func (c *DaemonClient) SetMIGLayout(ctx context.Context, uuid string, layout []string) (waits bool, err error) {
	var answer pendingResponse
	err = c.postJSON(ctx, "/v1/devices/"+url.PathEscape(uuid)+"/mig", layoutRequest{layout}, &answer)
	return answer.Pending, err
}
