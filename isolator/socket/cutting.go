package socket

import (
	"context"
	"net/http"
	"net/url"

	"mesos-gpu/isolator/mig"
)

// Cutting is what the calls about MIG come to, as mig.Cutter does it. Errors of
// Ask wrap mig.ErrUnknown or mig.ErrRefused where the call is at fault.
type Cutting interface {
	GPUs() ([]mig.GPU, error)
	Ask(uuid string, layout []string) (pending bool, err error)
}

// cutting asks for a layout, in the names of profiles.
type cutting struct {
	Layout []string `json:"layout"`
}

func (s *Server) gpusInMIGMode(*http.Request) (any, error) { return s.cfg.Cutting.GPUs() }

func (s *Server) cut(r *http.Request) (any, error) {
	body, err := read[cutting](r)
	if err != nil {
		return nil, err
	}
	waits, err := s.cfg.Cutting.Ask(r.PathValue("uuid"), body.Layout)
	return pending{waits}, err
}

// uncut is the Cutting of a host that cuts none of its GPUs.
type uncut struct{}

func (uncut) GPUs() ([]mig.GPU, error)           { return []mig.GPU{}, nil }
func (uncut) Ask(string, []string) (bool, error) { return false, mig.ErrUnknown }

// MIG tells of the GPUs that may be cut, and what they are cut into.
func (c *Client) MIG(ctx context.Context) ([]mig.GPU, error) {
	var list []mig.GPU
	err := c.get(ctx, "/v1/mig", nil, &list)
	return list, err
}

// Cut asks for a layout of a GPU; waits tells that it is not cut so yet.
func (c *Client) Cut(ctx context.Context, uuid string, layout []string) (waits bool, err error) {
	var answer pending
	err = c.post(ctx, "/v1/devices/"+url.PathEscape(uuid)+"/mig", cutting{layout}, &answer)
	return answer.Pending, err
}
