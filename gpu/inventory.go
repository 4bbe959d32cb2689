package gpu

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// maxInventory bounds the decompressed size of an attribute, which may be
// hostile. 64 devices take about 12 KiB.
const maxInventory = 1 << 20

// EncodeInventory returns the text of the gpu_inventory attribute for a host:
// JSON, compressed by zlib, in base64url without padding. That alphabet contains
// none of the special characters of Mesos's attribute grammar.
func EncodeInventory(h Host) (string, error) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if err := json.NewEncoder(z).Encode(h); err != nil {
		return "", fmt.Errorf("encode GPU inventory: %w", err)
	}
	if err := z.Close(); err != nil {
		return "", fmt.Errorf("compress GPU inventory: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(packed.Bytes()), nil
}

// DecodeInventory reads what EncodeInventory wrote. It rejects text that
// decompresses to more than 1 MiB.
func DecodeInventory(text string) (Host, error) {
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Host{}, fmt.Errorf("decode gpu_inventory: %w", err)
	}
	z := decompressors.Get().(*decompressor)
	defer decompressors.Put(z)
	if err := z.reset(packed); err != nil {
		return Host{}, fmt.Errorf("decompress gpu_inventory: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxInventory+1))
	if err != nil {
		return Host{}, fmt.Errorf("decompress gpu_inventory: %w", err)
	}
	if len(plain) > maxInventory {
		return Host{}, fmt.Errorf("decompress gpu_inventory: more than %d bytes", maxInventory)
	}
	var h Host
	if err := json.Unmarshal(plain, &h); err != nil {
		return Host{}, fmt.Errorf("parse gpu_inventory: %w", err)
	}
	return h, nil
}

// decompressors are used again, because each takes 40 KiB.
var decompressors = sync.Pool{New: func() any { return new(decompressor) }}

// decompressor is a zlib reader, nil before its first use.
type decompressor struct{ io.ReadCloser }

func (d *decompressor) reset(packed []byte) (err error) {
	if d.ReadCloser == nil {
		d.ReadCloser, err = zlib.NewReader(bytes.NewReader(packed))
		return err
	}
	return d.ReadCloser.(zlib.Resetter).Reset(bytes.NewReader(packed), nil)
}
