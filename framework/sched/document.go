package sched

import (
	"bytes"
	"fmt"
	"maps"
)

// Bounds of a document: it is for definitions that people write, in memory
// and in a journal.
const (
	maxDocumentKey = 512
	maxDocument    = 1 << 20
)

// AdmitPut says what is in the way of remembering it; nil where nothing is.
func AdmitPut(e Put) error {
	if e.Key == "" || len(e.Key) > maxDocumentKey {
		return fmt.Errorf("document %.20q: its key has %d bytes, not 1 to %d", e.Key, len(e.Key), maxDocumentKey)
	}
	if len(e.Value) > maxDocument {
		return fmt.Errorf("document %q has %d bytes, more than %d", e.Key, len(e.Value), maxDocument)
	}
	return nil
}

func (s *State) put(e Put) {
	if AdmitPut(e) != nil || bytes.Equal(s.documents[e.Key], e.Value) {
		return
	}
	if len(e.Value) == 0 {
		delete(s.documents, e.Key)
	} else {
		s.documents[e.Key] = e.Value
	}
	if s.changes.Documents == nil {
		s.changes.Documents = map[string][]byte{}
	}
	s.changes.Documents[e.Key] = e.Value
}

// Documents are all that were put. Their values are shared: nobody changes
// them.
func (s *State) Documents() map[string][]byte { return maps.Clone(s.documents) }
