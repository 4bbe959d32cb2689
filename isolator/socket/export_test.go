package socket

import "time"

// SetPatience makes the server give up on slow clients sooner.
func (s *Server) SetPatience(d time.Duration) { s.ioTimeout = d }

const (
	MaxConnections = maxConnections
	MaxOthers      = maxReadOnlyConnections
	MaxStreams     = maxConditionStreams
	MaxBody        = maxBodyBytes
	MaxHeader      = maxHeaderBytes
)
