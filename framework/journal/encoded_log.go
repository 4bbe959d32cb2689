package journal

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"mesos-gpu/job"
)

// EncodeChange returns a change as one text, in the encoding of log entries.
func EncodeChange(c Change) ([]byte, error) {
	all, err := encodeChange(c)
	if err != nil {
		return nil, err
	}
	return packRecords(all)
}

// DecodeChange returns the change that EncodeChange encoded, as standbys read it.
func DecodeChange(text []byte) (Change, error) {
	all, err := unpackRecords(text)
	if err != nil {
		return Change{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return decodeChange(all)
}

// DecodeLog returns the contents after the encoded changes, which apply in order. It returns ErrCorrupt, wrapped, if a text
// is damaged or missing.
func DecodeLog(texts [][]byte) (JournalContents, error) {
	image, err := decodeImage(texts)
	if err != nil {
		return JournalContents{}, err
	}
	all, err := image.decodeContents(context.Background())
	if err != nil {
		return JournalContents{}, fmt.Errorf("%d entries: %w: %w", len(texts), ErrCorrupt, err)
	}
	return all, nil
}

// decodeImage applies the encoded changes to an empty image.
func decodeImage(texts [][]byte) (*contentsImage, error) {
	image := newImage()
	for i, text := range texts {
		all, err := unpackRecords(text)
		if err == nil {
			err = image.applyRecords(all)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d of %d: %w: %w", i+1, len(texts), ErrCorrupt, err)
		}
	}
	return image, nil
}

// LogReader decodes a log again and again while it grows. A zero LogReader is ready to use.
type LogReader struct {
	// decoded are the jobs of the last call by formatRunKey.
	decoded map[string]decodedJob
	// parts are shared by the jobs.
	parts job.Interner
}

// decodedJob is a job and the records that it was decoded from.
type decodedJob struct {
	image jobImage
	job   *job.Job
}

// Decode returns what DecodeLog returns. Jobs whose records have not changed since the last call are not decoded again, and
// documents refer to the texts: the caller must modify neither the contents nor the texts.
func (r *LogReader) Decode(texts [][]byte) (JournalContents, error) {
	image, err := decodeImage(texts)
	if err != nil {
		return JournalContents{}, err
	}
	all := JournalContents{FrameworkID: image.frameworkID}
	if len(image.documents) > 0 {
		all.Documents = image.documents
	}
	decoded := make(map[string]decodedJob, len(image.jobs))
	for _, name := range slices.Sorted(maps.Keys(image.jobs)) {
		recorded := image.jobs[name]
		d, ok := r.decoded[name]
		if !ok || !bytes.Equal(d.image.job, recorded.job) || !slices.EqualFunc(d.image.tasks, recorded.tasks, bytes.Equal) {
			d.image = recorded
			if d.job, err = recorded.decodeJob(name, &r.parts); err != nil {
				return JournalContents{}, fmt.Errorf("%d entries: %w: %w", len(texts), ErrCorrupt, err)
			}
		}
		decoded[name] = d
		all.Jobs = append(all.Jobs, d.job)
	}
	r.decoded = decoded
	return all, nil
}
