package journal

import (
	"context"
	"fmt"
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
	image := newImage()
	for i, text := range texts {
		all, err := unpackRecords(text)
		if err == nil {
			err = image.applyRecords(all)
		}
		if err != nil {
			return JournalContents{}, fmt.Errorf("entry %d of %d: %w: %w", i+1, len(texts), ErrCorrupt, err)
		}
	}
	all, err := image.decodeContents(context.Background())
	if err != nil {
		return JournalContents{}, fmt.Errorf("%d entries: %w: %w", len(texts), ErrCorrupt, err)
	}
	return all, nil
}
