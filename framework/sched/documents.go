package sched

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"strings"

	"mesos-gpu/framework/notification"
)

// Keys of the scheduler's own documents, which are stored with those of extensions.
const (
	reservedPrefix = "scheduler/"
	cordonPrefix   = reservedPrefix + "cordon/"
	quotaPrefix    = reservedPrefix + "quota/"
	holdPrefix     = reservedPrefix + "hold/"
	// attemptPrefix, followed by its id, is the key of an ended attempt.
	attemptPrefix = "attempt/"
)

// CountersKey is the key of the document that CountersChanged writes.
const CountersKey = reservedPrefix + "counted"

// Limits of one document, and of all documents together. Documents are definitions that users write; they are kept in
// memory and in the journal.
const (
	maxDocumentKeyBytes   = 512
	maxDocumentBytes      = 1 << 20
	maxTotalDocumentBytes = 256 << 20
)

// IsReservedDocument reports whether a key is reserved for the scheduler.
func IsReservedDocument(key string) bool {
	return strings.HasPrefix(key, reservedPrefix) || strings.HasPrefix(key, attemptPrefix) || strings.HasPrefix(key, notification.Prefix())
}

// documentStore holds what extensions and the scheduler itself keep in the journal besides jobs.
type documentStore struct {
	// documents are by folder, which is the key up to and including its first slash, and by key. Each kind of document
	// has its own folder, so that listing one kind does not visit the others.
	documents map[string]map[string][]byte
	// documentBytes is the total size of all values.
	documentBytes int
	// changedDocuments are the values that were written since the last TakeChanges, by key; an empty one is deleted. The
	// map is nil if nothing was written.
	changedDocuments map[string][]byte
}

func folderOfKey(key string) string { return key[:strings.IndexByte(key, '/')+1] }

// Document returns a document, or nil if the key is unknown. The caller must not change it.
func (d *documentStore) Document(key string) []byte { return d.documents[folderOfKey(key)][key] }

// DocumentsIn returns the documents of a folder, such as "schedule/", in no order. While it iterates, the caller must
// not store documents or change values.
func (d *documentStore) DocumentsIn(folder string) iter.Seq2[string, []byte] {
	return maps.All(d.documents[folder])
}

// Documents returns all documents, the scheduler's own included. The caller must not change their values.
func (d *documentStore) Documents() map[string][]byte {
	all := map[string][]byte{}
	for _, folder := range d.documents {
		maps.Copy(all, folder)
	}
	return all
}

// AdmitDocuments returns why the documents may not be stored, nil if they may.
func (d *documentStore) AdmitDocuments(documents map[string][]byte) error {
	sum := d.documentBytes
	for key, value := range documents {
		if err := validateDocument(key, value); err != nil {
			return err
		}
		sum += len(value) - len(d.Document(key))
	}
	if sum > maxTotalDocumentBytes && sum > d.documentBytes {
		return fmt.Errorf("documents would have %d bytes together, more than %d: forget some first", sum, maxTotalDocumentBytes)
	}
	return nil
}

func validateDocument(key string, value []byte) error {
	switch {
	case IsReservedDocument(key):
		return fmt.Errorf("document %.40q: the scheduler keeps its own below %s, %s and %s", key, reservedPrefix, attemptPrefix, notification.Prefix())
	case key == "" || len(key) > maxDocumentKeyBytes:
		return fmt.Errorf("document %.20q: its key has %d bytes, not 1 to %d", key, len(key), maxDocumentKeyBytes)
	case len(value) > maxDocumentBytes:
		return fmt.Errorf("document %q has %d bytes, more than %d", key, len(value), maxDocumentBytes)
	}
	return nil
}

// restoreDocument sets a document that the journal has; an empty value deletes it.
func (d *documentStore) restoreDocument(key string, value []byte) {
	d.documentBytes += len(value) - len(d.Document(key))
	folder := folderOfKey(key)
	if len(value) == 0 {
		delete(d.documents[folder], key)
		return
	}
	if d.documents[folder] == nil {
		d.documents[folder] = map[string][]byte{}
	}
	d.documents[folder][key] = value
}

// writeDocument sets a document and records the change; an empty value deletes it.
func (d *documentStore) writeDocument(key string, value []byte) {
	if bytes.Equal(d.Document(key), value) {
		return
	}
	d.restoreDocument(key, value)
	if d.changedDocuments == nil {
		d.changedDocuments = map[string][]byte{}
	}
	d.changedDocuments[key] = value
}

// writeJSONDocument writes one of the scheduler's own documents. Values consist of strings, booleans and times, which
// always encode.
func (d *documentStore) writeJSONDocument(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	d.writeDocument(key, text)
}
