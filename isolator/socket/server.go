// Package socket speaks the API of docs/isolator-api.md: a server on a unix
// socket that knows who calls, its read-only half for TCP, and a client. It
// decides who may call and how much a call may be; what a call does is the
// Containers' and Devices' affair.
package socket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
)

const (
	maxBodyBytes   = 1 << 20
	maxHeaderBytes = 16 << 10
	// ioTimeout bounds reading a request and writing each part of an answer.
	ioTimeout = 10 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = 2 * time.Minute
)

// ServerConfig says what a Server serves.
type ServerConfig struct {
	Containers ContainerManager
	Devices    DeviceMonitor
	// Modes keeps which devices are shared, and Limiter holds containers to
	// their parts; without them none is.
	Modes   ModeManager
	Limiter share.Limiter
	// MIGPartitioner cuts GPUs in ListMIG mode; without it none is.
	MIGPartitioner MIGPartitioner
	// Metrics serves GET /metrics.
	Metrics http.Handler
	Version string
	// Host tells the driver's versions; devices come from Devices.
	Host gpu.Host
	// UID is the daemon's own: beside uid 0 the one that may change things.
	UID int
	// CgroupsRoot is the agent's --cgroups_root, below which its containers
	// are; empty means "mesos". Their processes may change nothing.
	CgroupsRoot string
	// ProcRoot is where procfs is; empty means /proc.
	ProcRoot string
	Log      logrus.FieldLogger
}

// Server answers the API.
type Server struct {
	cfg       ServerConfig
	ioTimeout time.Duration
}

// NewServer checks the configuration.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Containers == nil || cfg.Devices == nil || cfg.Metrics == nil || cfg.Log == nil {
		return nil, errors.New("serve the agent API: containers, devices, metrics and a log are needed")
	}
	if cfg.Modes == nil {
		cfg.Modes = noSharing{}
	}
	if cfg.Limiter == nil {
		cfg.Limiter = share.NoLimiter{}
	}
	if cfg.MIGPartitioner == nil {
		cfg.MIGPartitioner = noPartitioner{}
	}
	cfg.CgroupsRoot = cmp.Or(cfg.CgroupsRoot, "mesos")
	cfg.ProcRoot = cmp.Or(cfg.ProcRoot, "/proc")
	return &Server{cfg: cfg, ioTimeout: ioTimeout}, nil
}

// Serve answers on the socket that Listen gave until ctx ends. It returns
// after its connections have ended.
func (s *Server) Serve(ctx context.Context, socket net.Listener) error {
	return s.serveListener(ctx, socket, s.denialReason)
}

// ServeReadOnly answers the GETs to whoever reaches the listener, until ctx
// ends.
func (s *Server) ServeReadOnly(ctx context.Context, tcp net.Listener) error {
	return s.serveListener(ctx, tcp, func(net.Conn) string { return "only GETs are answered here: use the unix socket" })
}

func (s *Server) serveListener(ctx context.Context, l net.Listener, refusal func(net.Conn) string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler:           s.newHandler(),
		ReadHeaderTimeout: s.ioTimeout,
		ReadTimeout:       s.ioTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes - 4096, // net/http adds as much
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withPeer,
		ErrorLog:          log.New(debugLog{s.cfg.Log}, "", 0),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		// Streams end with ctx, which is their base; the rest is short.
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.ioTimeout)
		defer cancel()
		if server.Shutdown(finish) != nil {
			server.Close()
		}
	})
	err := server.Serve(&peerListener{Listener: l, denialReason: refusal, ioTimeout: s.ioTimeout})
	if stop() {
		server.Close()
		return fmt.Errorf("serve the agent API at %s: %w", l.Addr(), err)
	}
	<-ended
	return nil
}

// debugLog takes net/http's own complaints about what clients do.
type debugLog struct{ log logrus.FieldLogger }

func (d debugLog) Write(line []byte) (int, error) {
	d.log.WithField("complaint", string(line)).Debug("agent API connection")
	return len(line), nil
}
