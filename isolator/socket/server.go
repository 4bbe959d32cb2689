// Package socket implements the API of docs/reference/agent-api.md: a server on a
// unix socket that identifies its peers, a read-only server for TCP, and a
// client. It decides which peers may make which calls and how large these may
// be. What a call does is up to ContainerManager and DeviceMonitor.
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
	// ioTimeout bounds the reading of a request and each write of an answer.
	ioTimeout = 10 * time.Second
	// idleTimeout bounds the wait for the next request of a connection.
	idleTimeout = 2 * time.Minute
)

// ServerConfig configures a Server.
type ServerConfig struct {
	Containers ContainerManager
	// Claims handles POST /v1/claim. Without it the path does not exist.
	Claims  DeviceClaimer
	Devices DeviceMonitor
	// Modes stores which devices are shared, and Limiter enforces the shares.
	// Without them no device is shared.
	Modes   ModeManager
	Limiter share.Limiter
	// MIGPartitioner partitions GPUs in MIG mode. Without it none is
	// partitioned.
	MIGPartitioner MIGPartitioner
	// Metrics serves GET /metrics.
	Metrics http.Handler
	Version string
	// Host has the driver's versions and the lost devices that were never described. The devices come
	// from Devices.
	Host gpu.Host
	// UID is the daemon's own user, which may change things, as uid 0 may.
	UID int
	// CgroupsRoot is the agent's --cgroups_root, the parent of its containers;
	// empty means "mesos". Processes of the containers may change nothing.
	CgroupsRoot string
	// ProcRoot is the path of procfs; empty means /proc.
	ProcRoot string
	Log      logrus.FieldLogger
}

// Server serves the API.
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

// Serve serves the socket of ListenUnix until ctx ends. It returns after its
// connections have ended.
func (s *Server) Serve(ctx context.Context, socket net.Listener) error {
	return s.serveListener(ctx, socket, s.identifyPeer)
}

// ServeReadOnly serves GET requests to every client of the listener until ctx
// ends, except those of onSocketOnly.
func (s *Server) ServeReadOnly(ctx context.Context, tcp net.Listener) error {
	const denial = "only GETs are answered here: use the unix socket"
	return s.serveListener(ctx, tcp, func(net.Conn) peerIdentity { return peerIdentity{denialReason: denial, claimDenial: denial} })
}

func (s *Server) serveListener(ctx context.Context, l net.Listener, identify func(net.Conn) peerIdentity) error {
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
		// Streams end with ctx, which is their base context; all other calls
		// are short.
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.ioTimeout)
		defer cancel()
		if server.Shutdown(finish) != nil {
			server.Close()
		}
	})
	err := server.Serve(&peerListener{Listener: l, identifyPeer: identify, ioTimeout: s.ioTimeout})
	if stop() {
		server.Close()
		return fmt.Errorf("serve the agent API at %s: %w", l.Addr(), err)
	}
	<-ended
	return nil
}

// debugLog logs net/http's errors about clients at debug level.
type debugLog struct{ log logrus.FieldLogger }

func (d debugLog) Write(line []byte) (int, error) {
	d.log.WithField("complaint", string(line)).Debug("agent API connection")
	return len(line), nil
}
