package docker

import (
	"fmt"
	"time"
)

// progressInterval is the minimum time between two reports of a pull. Each
// report is a status update, which the agent checkpoints and the scheduler
// stores.
const progressInterval = 5 * time.Second

// pullMessage is one line of the engine's response to a pull.
type pullMessage struct {
	Error  string `json:"error"`
	Status string `json:"status"`
	// ID is the layer's, except in some messages without progress, where it is
	// the tag.
	ID             string `json:"id"`
	ProgressDetail struct {
		Current int64 `json:"current"` // bytes
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
}

// The engine's statuses of a layer.
const (
	statusDownloading   = "Downloading"
	statusDownloaded    = "Download complete"
	statusPullComplete  = "Pull complete"
	statusAlreadyExists = "Already exists"
	statusWaiting       = "Pulling fs layer"
)

// pullProgress sums up the progress of an image's layers.
type pullProgress struct {
	image string
	// layers has the progress of each layer of which the engine has sent a
	// message, by the layer's ID.
	layers map[string]layerProgress
	// lastReport is when the user was last informed; zero before the first
	// report.
	lastReport time.Time
}

// layerProgress is in bytes. The size is known once the download has started.
type layerProgress struct {
	got, size int64
	done      bool
}

func newPullProgress(image string) *pullProgress {
	return &pullProgress{image: image, layers: map[string]layerProgress{}}
}

// addMessage processes one message and returns the text to report now: the
// first one at once, later ones at most every progressInterval. It returns ""
// if nothing is due.
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

// String returns "pulling image debian:12: 3 of 5 layers, 120 of 340 MiB". The
// bytes cover the layers whose download has started.
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
