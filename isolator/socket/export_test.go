package socket

import "time"

// SetPatience sets the timeout for slow clients.
func (s *Server) SetPatience(d time.Duration) { s.ioTimeout = d }

const (
	MaxConnections = maxConnections
	MaxOthers      = maxReadOnlyConnections
	MaxStreams     = maxConditionStreams
	MaxBody        = maxBodyBytes
	MaxHeader      = maxHeaderBytes
)
