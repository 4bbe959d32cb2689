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

// maxDocuments bounds all of them together, in bytes.
const maxDocuments = 256 << 20

// AdmitPuts says what is in the way of remembering all of them; nil where
// nothing is.
func (s *State) AdmitPuts(documents map[string][]byte) error {
	sum := s.documentBytes
	for key, value := range documents {
		if err := admitPut(Put{Key: key, Value: value}); err != nil {
			return err
		}
		sum += len(value) - len(s.documents[key])
	}
	if sum > maxDocuments && sum > s.documentBytes {
		return fmt.Errorf("documents would have %d bytes together, more than %d: forget some first", sum, maxDocuments)
	}
	return nil
}

func admitPut(e Put) error {
	if Own(e.Key) {
		return fmt.Errorf("document %.40q: the scheduler keeps its own below %s", e.Key, ownPrefix)
	}
	if e.Key == "" || len(e.Key) > maxDocumentKey {
		return fmt.Errorf("document %.20q: its key has %d bytes, not 1 to %d", e.Key, len(e.Key), maxDocumentKey)
	}
	if len(e.Value) > maxDocument {
		return fmt.Errorf("document %q has %d bytes, more than %d", e.Key, len(e.Value), maxDocument)
	}
	return nil
}

func (s *State) put(e Put) {
	if admitPut(e) == nil {
		s.write(e.Key, e.Value)
	}
}

func (s *State) write(key string, value []byte) {
	if bytes.Equal(s.documents[key], value) {
		return
	}
	s.documentBytes += len(value) - len(s.documents[key])
	if len(value) == 0 {
		delete(s.documents, key)
	} else {
		s.documents[key] = value
	}
	if s.changes.Documents == nil {
		s.changes.Documents = map[string][]byte{}
	}
	s.changes.Documents[key] = value
}

// Document is the one of a key, nil if there is none. Nobody changes it.
func (s *State) Document(key string) []byte { return s.documents[key] }

// Documents are all that were put, and the scheduler's own. Their values are shared: nobody changes
// them.
func (s *State) Documents() map[string][]byte { return maps.Clone(s.documents) }
