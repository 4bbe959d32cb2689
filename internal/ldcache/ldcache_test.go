package ldcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oldCache returns a cache in the old layout of ldconfig.
func oldCache(list ...CacheEntry) []byte {
	var table, text bytes.Buffer
	for _, e := range list {
		writeWords(&table, 3, writeString(&text, e.Name), writeString(&text, e.Path))
	}
	var out bytes.Buffer
	out.WriteString(oldMagic + "\x00")
	writeWords(&out, uint32(len(list)))
	out.Write(table.Bytes())
	out.Write(text.Bytes())
	return out.Bytes()
}

func newCache(list ...CacheEntry) []byte {
	var table, text bytes.Buffer
	start := uint32(newHeader + newEntry*len(list))
	for _, e := range list {
		writeWords(&table, 0x303, start+writeString(&text, e.Name), start+writeString(&text, e.Path), 0, 0, 0)
	}
	var out bytes.Buffer
	out.WriteString(newMagic)
	writeWords(&out, uint32(len(list)), uint32(text.Len()), 2, 0, 0, 0, 0)
	out.Write(table.Bytes())
	out.Write(text.Bytes())
	return out.Bytes()
}

func writeWords(b *bytes.Buffer, words ...uint32) {
	for _, w := range words {
		_ = binary.Write(b, binary.LittleEndian, w) // writes to a Buffer never fail
	}
}

func writeString(b *bytes.Buffer, s string) uint32 {
	at := b.Len()
	b.WriteString(s + "\x00")
	return uint32(at)
}

// oldAndNewCache is the compatible layout: an empty old cache, followed by the aligned
// new one.
func oldAndNewCache(list ...CacheEntry) []byte {
	data := oldCache()
	for len(data)%newAlign != 0 {
		data = append(data, 0)
	}
	return append(data, newCache(list...)...)
}

var sampleEntries = []CacheEntry{{"libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"}, {"libc.so.6", "/lib/libc.so.6"}}

func TestParseCache(t *testing.T) {
	for name, data := range map[string][]byte{"old": oldCache(sampleEntries...), "new": newCache(sampleEntries...), "both": oldAndNewCache(sampleEntries...)} {
		got, err := Parse(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(sampleEntries, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	big := newCache(sampleEntries...)
	big[len(newMagic)+8] = bigEndian
	for _, c := range []struct {
		name, want string
		data       []byte
		format     bool
	}{
		{"empty", "unknown format", nil, true},
		{"other file", `begins with "#!/bin/sh"`, []byte("#!/bin/sh"), true},
		{"big-endian", "big-endian", big, true},
		{"header", "20 bytes, the header has 48", []byte(newMagic), false},
		{"entries", "announces 2 libraries and has room for 1", newCache(sampleEntries...)[:newHeader+newEntry+5], false},
		{"no end", "has no end", newCache(sampleEntries...)[:len(newCache(sampleEntries...))-1], false},
		{"string", "a string at", oldCache(sampleEntries...)[:oldHeader+2*oldEntry], false},
		{"long", "has no end", newCache(CacheEntry{strings.Repeat("x", maxStringLen), "/"}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.data)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrFormat) != c.format {
				t.Errorf("got %v, %v; want %q", got, err, c.want)
			}
		})
	}
}

// For any bytes, the strings of an entry are parts of the file, and there are no more
// entries than fit into the file.
func FuzzParse(f *testing.F) {
	f.Add(oldCache(sampleEntries...))
	f.Add(newCache(sampleEntries...))
	f.Add(oldAndNewCache(sampleEntries...))
	if own, err := os.ReadFile("/etc/ld.so.cache"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse(data)
		if err != nil && list != nil {
			t.Errorf("both %d entries and %v", len(list), err)
		}
		if len(list) > len(data)/oldEntry {
			t.Errorf("%d entries in %d bytes", len(list), len(data))
		}
		for _, e := range list {
			for _, s := range []string{e.Name, e.Path} {
				if strings.Contains(s, "\x00") || !bytes.Contains(data, append([]byte(s), 0)) {
					t.Errorf("%q is no string of the file", s)
				}
			}
		}
	})
}
