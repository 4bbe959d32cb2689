package accounting

import (
	"encoding/binary"
	"errors"
	"math"
)

// encodingVersion is the first byte of each record. A later version appends fields, which earlier releases ignore.
const encodingVersion = 1

// errDamagedRecord means that a record cannot be decoded.
var errDamagedRecord = errors.New("a record is damaged")

// appendRecord appends the encoded record but for its id, which is part of the key. JSON would take ten times as long to
// decode, and each sum decodes all records.
func appendRecord(b []byte, r *attemptRecord) []byte {
	b = append(b, encodingVersion, byte(r.usageState))
	for _, s := range []string{r.job, r.owner, r.role, r.host, r.state, r.reason} {
		b = appendText(b, s)
	}
	for _, n := range []int{r.run, r.index, r.attempt, r.milliCPUs} {
		b = binary.AppendUvarint(b, uint64(max(n, 0)))
	}
	for _, t := range []int64{r.queued, r.launched, r.started} {
		b = binary.AppendVarint(b, t)
	}
	if r.exitCode == nil {
		b = append(b, 0)
	} else {
		b = binary.AppendVarint(append(b, 1), int64(*r.exitCode))
	}
	for _, list := range [][]heldGPUs{r.types, r.devices} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, g := range list {
			b = binary.AppendUvarint(appendText(b, g.name), uint64(max(g.milli, 0)))
		}
	}
	if r.usageState == usageMeasured {
		u := &r.usage
		for _, v := range []float64{u.GPUSeconds, u.BusyGPUSeconds, u.MemMiBSeconds, u.MemUsedMiBSeconds, u.MaxMemMiB, u.Joules} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		simulated := byte(0)
		if u.Simulated {
			simulated = 1
		}
		b = append(b, simulated)
	}
	return b
}

// appendText appends a text, preceded by its length.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// recordDecoder reads a sequence of records. Where a record ends too early, the methods that read a value return zero and
// set failed. decodeRecord checks failed once, at the end of a record.
type recordDecoder struct {
	// rest contains the undecoded bytes of the current record.
	rest   []byte
	failed bool
	// texts are the values that many records have, such as roles, so that a sum over a million attempts copies few. It
	// grows up to maxSharedTexts.
	texts map[string]string
}

// maxSharedTexts limits the texts that a decoder keeps.
const maxSharedTexts = 100_000

func (d *recordDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *recordDecoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *recordDecoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *recordDecoder) float() float64 {
	if len(d.rest) < 8 {
		d.fail()
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(d.rest))
	d.rest = d.rest[8:]
	return v
}

// text returns a text that other records are likely to have, too.
func (d *recordDecoder) text() string {
	b := d.bytes()
	if len(b) == 0 {
		return ""
	}
	if s, ok := d.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	if d.texts == nil {
		d.texts = map[string]string{}
	}
	if len(d.texts) < maxSharedTexts {
		d.texts[s] = s
	}
	return s
}

// bytes returns the bytes of a text, which are valid as long as the record.
func (d *recordDecoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *recordDecoder) fail() { d.failed, d.rest = true, nil }

// decodeRecord decodes the value of a key into r, whose slices it reuses. It ignores what follows the fields
// that it knows, which a later release has written. After errDamagedRecord r is not to be used.
func (d *recordDecoder) decodeRecord(r *attemptRecord, key, value []byte) error {
	if len(key) <= 8 {
		return errDamagedRecord
	}
	d.rest, d.failed = value, false
	if d.byte() != encodingVersion {
		return errDamagedRecord
	}
	types, devices := r.types[:0], r.devices[:0]
	*r = attemptRecord{id: string(key[8:]), ended: endOfKey(key), usageState: usageState(d.byte())}
	r.job = string(d.bytes())
	for _, s := range []*string{&r.owner, &r.role, &r.host, &r.state, &r.reason} {
		*s = d.text()
	}
	for _, n := range []*int{&r.run, &r.index, &r.attempt, &r.milliCPUs} {
		*n = int(d.uvarint())
	}
	for _, t := range []*int64{&r.queued, &r.launched, &r.started} {
		*t = d.varint()
	}
	if d.byte() == 1 {
		code := int(d.varint())
		r.exitCode = &code
	}
	r.types, r.devices = d.gpus(types), d.gpus(devices)
	if r.usageState == usageMeasured {
		u := &r.usage
		for _, v := range []*float64{&u.GPUSeconds, &u.BusyGPUSeconds, &u.MemMiBSeconds, &u.MemUsedMiBSeconds, &u.MaxMemMiB, &u.Joules} {
			*v = d.float()
		}
		u.Simulated = d.byte() == 1
	}
	if d.failed {
		return errDamagedRecord
	}
	return nil
}

// gpus appends the GPUs of a record to list.
func (d *recordDecoder) gpus(list []heldGPUs) []heldGPUs {
	for n := d.uvarint(); n > 0 && !d.failed; n-- {
		list = append(list, heldGPUs{d.text(), int(d.uvarint())})
	}
	return list
}

// formatKey returns the key of a record: the end, so that records are in the order of their ends, and the id.
func formatKey(ended int64, id string) []byte {
	return append(formatEnd(ended), id...)
}

// formatEnd returns an end as the first 8 bytes of a key. Big endian orders keys by time.
func formatEnd(ended int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(max(ended, 0))) }

// endOfKey returns the end in a key, or in the value of the index of ids.
func endOfKey(key []byte) int64 { return int64(binary.BigEndian.Uint64(key)) }
