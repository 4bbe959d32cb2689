package socket

import "time"

// SetPatience makes the server give up on slow clients sooner.
func (s *Server) SetPatience(d time.Duration) { s.patience = d }

const (
	MaxConnections = maxConnections
	MaxOthers      = maxOthers
	MaxStreams     = maxStreams
	MaxBody        = maxBody
	MaxHeader      = maxHeader
)
