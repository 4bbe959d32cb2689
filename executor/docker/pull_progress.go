package docker

import (
	"fmt"
	"time"
)

// progressInterval bounds how often a pull tells its progress: each time is a status
// update, which the agent checkpoints and the scheduler records.
const progressInterval = 5 * time.Second

// pullMessage is a line of the engine's answer to a pull.
type pullMessage struct {
	Error  string `json:"error"`
	Status string `json:"status"`
	// ID is the layer's, but the tag's in some messages without progress.
	ID             string `json:"id"`
	ProgressDetail struct {
		Current int64 `json:"current"` // bytes
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// The engine's words for a layer that has come.
const (
	statusDownloading   = "Downloading"
	statusDownloaded    = "Download complete"
	statusPullComplete  = "Pull complete"
	statusAlreadyExists = "Already exists"
	statusWaiting       = "Pulling fs layer"
)

// pullProgress adds up what the engine says of an image's layers.
type pullProgress struct {
	image      string
	layers     map[string]layerProgress
	lastReport time.Time
}

// layerProgress is in bytes. The engine tells a layer's size once it is being fetched.
type layerProgress struct {
	got, size int64
	done      bool
}

func newPullProgress(image string) *pullProgress {
	return &pullProgress{image: image, layers: map[string]layerProgress{}}
}

// addMessage takes a message and returns what to say now, "" for nothing: at once
// for the first, then at most every progressInterval.
func (p *pullProgress) addMessage(m pullMessage, now time.Time) string {
	l := p.layers[m.ID]
	switch m.Status {
	case statusDownloading:
		l.got, l.size = m.ProgressDetail.Current, max(l.size, m.ProgressDetail.Total)
	case statusDownloaded, statusPullComplete:
		l.got, l.done = l.size, true
	case statusAlreadyExists:
		l.done = true
	case statusWaiting:
	default:
		return p.reportIfDue(now)
	}
	p.layers[m.ID] = l
	return p.reportIfDue(now)
}

func (p *pullProgress) reportIfDue(now time.Time) string {
	if !p.lastReport.IsZero() && now.Sub(p.lastReport) < progressInterval {
		return ""
	}
	p.lastReport = now
	return p.String()
}

// String reads "pulling image debian:12: 3 of 5 layers, 120 of 340 MiB". The
// bytes are those of the layers that are being fetched or have been.
func (p *pullProgress) String() string {
	text := "pulling image " + p.image
	if len(p.layers) == 0 {
		return text
	}
	var done int
	var got, size int64
	for _, l := range p.layers {
		got, size = got+l.got, size+l.size
		if l.done {
			done++
		}
	}
	return fmt.Sprintf("%s: %d of %d layers, %d of %d MiB", text, done, len(p.layers), got/mib, size/mib)
}
