package master

import (
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/encoding"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/framing"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/proto"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
)

// maxEvent bounds one event of the subscription. mesos-go's own bound of
// 4 MiB is passed by the offers of some thousand agents with inventories.
const maxEvent = 32 << 20

// transport makes the connections of one session.
func (c *Config) transport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: c.CallTimeout,
		MaxIdleConnsPerHost:   2,
		IdleConnTimeout:       time.Minute,
	}
}

// client follows no redirect: where the leader is, leader finds out.
func (c *Config) client() *http.Client {
	return &http.Client{
		Transport:     c.transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// stream makes an httpcli.Client for one subscription, which decodes events
// of up to maxEvent bytes: only SUBSCRIBE has an answer with a body.
func stream(client *http.Client, endpoint string) *httpcli.Client {
	var body io.Reader
	do := func(req *http.Request) (*http.Response, error) {
		res, err := client.Do(req)
		if err == nil && res.StatusCode == http.StatusOK {
			body = res.Body
		}
		return res, err
	}
	codec := codecs.ByMediaType[codecs.MediaTypeProtobuf]
	codec.NewDecoder = func(encoding.Source) encoding.Decoder {
		frames := recordio.NewReader(body, recordio.MaxMessageSize(maxEvent))
		return proto.NewDecoder(func() framing.Reader { return frames })
	}
	return httpcli.New(httpcli.Endpoint(endpoint), httpcli.Codec(codec), httpcli.Do(do))
}
