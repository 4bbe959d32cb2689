package docker

import (
	"fmt"
	"time"
)

// sayEvery bounds how often a pull tells its progress: each time is a status
// update, which the agent checkpoints and the scheduler records.
const sayEvery = 5 * time.Second

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
	downloading  = "Downloading"
	downloaded   = "Download complete"
	pullComplete = "Pull complete"
	alreadyThere = "Already exists"
	waitingLayer = "Pulling fs layer"
)

// progress adds up what the engine says of an image's layers.
type progress struct {
	image  string
	layers map[string]layer
	said   time.Time
}

// layer is in bytes. The engine tells a layer's size once it is being fetched.
type layer struct {
	got, size int64
	done      bool
}

func newProgress(image string) *progress { return &progress{image: image, layers: map[string]layer{}} }

// add takes a message and returns what to say now, "" for nothing: at once
// for the first, then at most every sayEvery.
func (p *progress) add(m pullMessage, now time.Time) string {
	l := p.layers[m.ID]
	switch m.Status {
	case downloading:
		l.got, l.size = m.ProgressDetail.Current, max(l.size, m.ProgressDetail.Total)
	case downloaded, pullComplete:
		l.got, l.done = l.size, true
	case alreadyThere:
		l.done = true
	case waitingLayer:
	default:
		return p.say(now)
	}
	p.layers[m.ID] = l
	return p.say(now)
}

func (p *progress) say(now time.Time) string {
	if !p.said.IsZero() && now.Sub(p.said) < sayEvery {
		return ""
	}
	p.said = now
	return p.String()
}

// String reads "pulling image debian:12: 3 of 5 layers, 120 of 340 MiB". The
// bytes are those of the layers that are being fetched or have been.
func (p *progress) String() string {
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
