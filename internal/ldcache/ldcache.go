// Package ldcache parses /etc/ld.so.cache, where ldconfig(8) stores which libraries
// the dynamic loader finds by name. It parses bytes and opens no file: it does
// not check that an entry's library exists.
package ldcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// CacheEntry is one library of the cache.
type CacheEntry struct {
	// Name is the name that programs load, such as "libcuda.so.1". Path is absolute.
	Name, Path string
}

// ErrFormat is returned for data that is not a cache of glibc or of the loaders
// before glibc 2.2.
var ErrFormat = errors.New("unknown format")

// Layouts of glibc, see sysdeps/generic/dl-cache.h. ldconfig writes the
// new one (-c new), the old one, or the new one after the old.
const (
	oldMagic = "ld.so-1.7.0"
	newMagic = "glibc-ld.so.cache1.1"

	oldHeader = 16 // magic, padding, the number of entries
	oldEntry  = 12 // flags, name, path
	newHeader = 48 // magic, number of entries, length of strings, flags, extensions
	newEntry  = 24 // flags, name, path, osversion, hwcap
	newAlign  = 8

	// bigEndian is the value of the two low bits of the new header's flags on a
	// big-endian machine.
	bigEndian = 3
)

// Parse returns the cache's libraries in its order, of all architectures. It
// returns ErrFormat for other files.
func Parse(data []byte) ([]CacheEntry, error) {
	switch {
	case bytes.HasPrefix(data, []byte(newMagic)):
		return parseNew(data)
	case !bytes.HasPrefix(data, []byte(oldMagic)):
		return nil, fmt.Errorf("%w: it begins with %q", ErrFormat, data[:min(len(data), len(newMagic))])
	}
	n, err := readCount(data, len(oldMagic)+1, oldHeader, oldEntry)
	if err != nil {
		return nil, err
	}
	end := oldHeader + n*oldEntry
	if next := (end + newAlign - 1) &^ (newAlign - 1); next < len(data) && bytes.HasPrefix(data[next:], []byte(newMagic)) {
		return parseNew(data[next:])
	}
	return readEntries(data[oldHeader:end], oldEntry, data[end:])
}

// parseNew parses the new layout. Offsets of strings start at its header.
func parseNew(data []byte) ([]CacheEntry, error) {
	n, err := readCount(data, len(newMagic), newHeader, newEntry)
	if err != nil {
		return nil, err
	}
	if data[len(newMagic)+8]&3 == bigEndian {
		return nil, fmt.Errorf("%w: written on a big-endian machine", ErrFormat)
	}
	return readEntries(data[newHeader:newHeader+n*newEntry], newEntry, data)
}

// readCount reads the number of entries at an offset and checks that the data has
// that many.
func readCount(data []byte, at, header, entry int) (int, error) {
	if len(data) < header {
		return 0, fmt.Errorf("torn: %d bytes, the header has %d", len(data), header)
	}
	n := binary.LittleEndian.Uint32(data[at:])
	if most := (len(data) - header) / entry; uint64(n) > uint64(most) {
		return 0, fmt.Errorf("torn: it announces %d libraries and has room for %d", n, most)
	}
	return int(n), nil
}

func readEntries(table []byte, size int, text []byte) ([]CacheEntry, error) {
	list := make([]CacheEntry, 0, len(table)/size)
	for ; len(table) > 0; table = table[size:] {
		name, err := textAt(text, binary.LittleEndian.Uint32(table[4:]))
		if err != nil {
			return nil, err
		}
		path, err := textAt(text, binary.LittleEndian.Uint32(table[8:]))
		if err != nil {
			return nil, err
		}
		list = append(list, CacheEntry{Name: name, Path: path})
	}
	return list, nil
}

// maxStringLen bounds a string, as the kernel bounds a path. Without it, many
// entries of a malicious cache could refer to one string of several MiB.
const maxStringLen = 4096

func textAt(text []byte, at uint32) (string, error) {
	if uint64(at) >= uint64(len(text)) {
		return "", fmt.Errorf("torn: a string at %d of %d bytes", at, len(text))
	}
	rest := text[at:]
	end := bytes.IndexByte(rest[:min(len(rest), maxStringLen)], 0)
	if end < 0 {
		return "", fmt.Errorf("torn: the string at %d has no end", at)
	}
	return string(rest[:end]), nil
}
