package journal

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// plainFormat and deflatedFormat are the first byte of an encoded text: whether the rest is compressed.
	plainFormat    = 'p'
	deflatedFormat = 'd'
	// minDeflateSize is the size in bytes from which texts are compressed.
	minDeflateSize = 8 << 10
	// maxUnpacked limits the uncompressed size of one blob, in bytes: about a million tasks.
	maxUnpacked = 1 << 30
)

// deflaters are compressors, each of which takes about a megabyte.
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // only for an unknown level
	}
	return w
}}

// packRecords encodes the records as one text: for each its kind, then key and value
// with their lengths. It compresses the text if it is large enough. It fails for more than maxUnpacked bytes, which
// unpackRecords would reject.
func packRecords(all []journalRecord) ([]byte, error) {
	size := 0
	for _, r := range all {
		size += len(r.key) + len(r.value) + 2*binary.MaxVarintLen32 + 1
	}
	text := make([]byte, 1, size+1)
	text[0] = plainFormat
	for _, r := range all {
		text = append(text, byte(r.kind))
		text = append(binary.AppendUvarint(text, uint64(len(r.key))), r.key...)
		text = append(binary.AppendUvarint(text, uint64(len(r.value))), r.value...)
	}
	if len(text) < minDeflateSize {
		return text, nil
	}
	if len(text) > maxUnpacked {
		return nil, fmt.Errorf("pack %d records: they have %d bytes, more than the limit of %d", len(all), len(text), maxUnpacked)
	}
	var small bytes.Buffer
	small.WriteByte(deflatedFormat)
	deflater := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(deflater)
	deflater.Reset(&small)
	if _, err := deflater.Write(text[1:]); err != nil {
		return nil, fmt.Errorf("deflate records: %w", err)
	}
	if err := deflater.Close(); err != nil {
		return nil, fmt.Errorf("deflate records: %w", err)
	}
	return small.Bytes(), nil
}

// unpackRecords is the inverse of packRecords. The records share one buffer, which is text unless that is compressed.
func unpackRecords(text []byte) ([]journalRecord, error) {
	if len(text) == 0 {
		return nil, errors.New("unpack records: there is nothing")
	}
	kindOf, text := text[0], text[1:]
	switch kindOf {
	case plainFormat:
	case deflatedFormat:
		all, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(text)), maxUnpacked+1))
		if err != nil {
			return nil, fmt.Errorf("inflate records: %w", err)
		}
		if len(all) > maxUnpacked {
			return nil, fmt.Errorf("inflate records: they have more than %d bytes", maxUnpacked)
		}
		text = all
	default:
		return nil, fmt.Errorf("unpack records: unknown format %q", kindOf)
	}
	var all []journalRecord
	for len(text) > 0 {
		r := journalRecord{kind: recordKind(text[0])}
		key, rest, ok := readField(text[1:])
		if ok {
			r.key = string(key)
			r.value, rest, ok = readField(rest)
		}
		if !ok {
			return nil, fmt.Errorf("unpack records: the %dth is cut off", len(all)+1)
		}
		all, text = append(all, r), rest
	}
	return all, nil
}

// readField returns the first value of a text, which is preceded by its length, and what follows it.
func readField(text []byte) (value, rest []byte, ok bool) {
	size, n := binary.Uvarint(text)
	if n <= 0 || size > uint64(len(text)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return text[n:end:end], text[end:], true
}
