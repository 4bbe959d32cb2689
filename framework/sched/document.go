package sched

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"strings"
)

// Bounds of a document: it is for definitions that people write, in memory
// and in a journal.
const (
	maxDocumentKey = 512
	maxDocument    = 1 << 20
)

// maxDocuments bounds all of them together, in bytes.
const maxDocuments = 256 << 20

// documents are by folder, and there by key. Each kind has a folder of its
// own, and whoever wants all of one kind does not look at the others.
type documents map[string]map[string][]byte

// folderOf is a key to the first slash, and with it; "" where there is none.
func folderOf(key string) string { return key[:strings.IndexByte(key, '/')+1] }

// AdmitPuts says what is in the way of remembering all of them; nil where
// nothing is.
func (s *State) AdmitPuts(documents map[string][]byte) error {
	sum := s.documentBytes
	for key, value := range documents {
		if err := admitPut(Put{Key: key, Value: value}); err != nil {
			return err
		}
		sum += len(value) - len(s.Document(key))
	}
	if sum > maxDocuments && sum > s.documentBytes {
		return fmt.Errorf("documents would have %d bytes together, more than %d: forget some first", sum, maxDocuments)
	}
	return nil
}

func admitPut(e Put) error {
	if Own(e.Key) {
		return fmt.Errorf("document %.40q: the scheduler keeps its own below %s and %s", e.Key, ownPrefix, attemptPrefix)
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
	if bytes.Equal(s.Document(key), value) {
		return
	}
	s.remembers(key, value)
	if s.changes.Documents == nil {
		s.changes.Documents = map[string][]byte{}
	}
	s.changes.Documents[key] = value
}

// remembers has the document of a key be the value, or none where it is empty.
func (s *State) remembers(key string, value []byte) {
	s.documentBytes += len(value) - len(s.Document(key))
	folder := folderOf(key)
	if len(value) == 0 {
		delete(s.documents[folder], key)
		return
	}
	if s.documents[folder] == nil {
		s.documents[folder] = map[string][]byte{}
	}
	s.documents[folder][key] = value
}

// Document is the one of a key, nil if there is none. Nobody changes it.
func (s *State) Document(key string) []byte { return s.documents[folderOf(key)][key] }

// DocumentsIn are those whose keys have the folder, such as "schedule/", before
// their first slash and with it, in no order. Nobody changes their values, and
// none is put meanwhile.
func (s *State) DocumentsIn(folder string) iter.Seq2[string, []byte] {
	return maps.All(s.documents[folder])
}

// Documents are all that were put, and the scheduler's own. Their values are
// shared: nobody changes them.
func (s *State) Documents() map[string][]byte {
	all := map[string][]byte{}
	for _, some := range s.documents {
		maps.Copy(all, some)
	}
	return all
}
