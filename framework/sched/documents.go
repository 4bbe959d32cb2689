package sched

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"strings"
)

// Limits of one document. Documents are definitions that users write; they are kept in memory and in the journal.
const (
	maxDocumentKeyBytes = 512
	maxDocumentBytes    = 1 << 20
)

// maxTotalDocumentBytes limits all documents together.
const maxTotalDocumentBytes = 256 << 20

// documentStore holds documents by folder and key. Each kind of document has its own folder, so that listing one kind
// does not visit the others.
type documentStore map[string]map[string][]byte

// folderOfKey returns the key up to and including its first slash, "" if it has none.
func folderOfKey(key string) string { return key[:strings.IndexByte(key, '/')+1] }

// AdmitDocuments returns why the documents may not be stored, nil if they may.
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

// storeDocument sets a document without recording a change; an empty value deletes it.
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

// Document returns a document, or nil if the key is unknown. The caller must not change it.
func (s *State) Document(key string) []byte { return s.documents[folderOfKey(key)][key] }

// DocumentsIn returns the documents of a folder, such as "schedule/", in no order. While it iterates, the caller must
// not store documents or change values.
func (s *State) DocumentsIn(folder string) iter.Seq2[string, []byte] {
	return maps.All(s.documents[folder])
}

// Documents returns all documents, the scheduler's own included. The caller must not change their values.
func (s *State) Documents() map[string][]byte {
	all := map[string][]byte{}
	for _, some := range s.documents {
		maps.Copy(all, some)
	}
	return all
}
