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
	maxDocumentKeyBytes = 512
	maxDocumentBytes    = 1 << 20
)

// maxTotalDocumentBytes bounds all of them together, in bytes.
const maxTotalDocumentBytes = 256 << 20

// documentStore are by folder, and there by key. Each kind has a folder of its
// own, and whoever wants all of one kind does not look at the others.
type documentStore map[string]map[string][]byte

// folderOfKey is a key to the first slash, and with it; "" where there is none.
func folderOfKey(key string) string { return key[:strings.IndexByte(key, '/')+1] }

// AdmitDocuments says what is in the way of remembering all of them; nil where
// nothing is.
func (s *State) AdmitDocuments(documents map[string][]byte) error {
	sum := s.documentBytes
	for key, value := range documents {
		if err := validateDocument(PutDocument{Key: key, Value: value}); err != nil {
			return err
		}
		sum += len(value) - len(s.Document(key))
	}
	if sum > maxTotalDocumentBytes && sum > s.documentBytes {
		return fmt.Errorf("documents would have %d bytes together, more than %d: forget some first", sum, maxTotalDocumentBytes)
	}
	return nil
}

func validateDocument(e PutDocument) error {
	if IsReservedDocument(e.Key) {
		return fmt.Errorf("document %.40q: the scheduler keeps its own below %s and %s", e.Key, reservedPrefix, attemptPrefix)
	}
	if e.Key == "" || len(e.Key) > maxDocumentKeyBytes {
		return fmt.Errorf("document %.20q: its key has %d bytes, not 1 to %d", e.Key, len(e.Key), maxDocumentKeyBytes)
	}
	if len(e.Value) > maxDocumentBytes {
		return fmt.Errorf("document %q has %d bytes, more than %d", e.Key, len(e.Value), maxDocumentBytes)
	}
	return nil
}

func (s *State) putDocument(e PutDocument) {
	if validateDocument(e) == nil {
		s.writeDocument(e.Key, e.Value)
	}
}

func (s *State) writeDocument(key string, value []byte) {
	if bytes.Equal(s.Document(key), value) {
		return
	}
	s.storeDocument(key, value)
	if s.changes.Documents == nil {
		s.changes.Documents = map[string][]byte{}
	}
	s.changes.Documents[key] = value
}

// storeDocument has the document of a key be the value, or none where it is empty.
func (s *State) storeDocument(key string, value []byte) {
	s.documentBytes += len(value) - len(s.Document(key))
	folder := folderOfKey(key)
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
func (s *State) Document(key string) []byte { return s.documents[folderOfKey(key)][key] }

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
