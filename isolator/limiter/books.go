package limiter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The layout of src/books.h.
const (
	booksMagic = 0x32534b4f4f42474d // "MGBOOKS2"
	maxSlots   = 128
	slotsAt    = 4096
	lockAt     = 1 << 40
	lockSlot   = 16
	blindAfter = 40 // of src/throttle.c
)

type header struct {
	Magic, Nonce   uint64
	Devices, Slots uint32
	_              [5]uint64
}

type deviceRecord struct {
	UUID         [16]byte
	Limit        uint64
	Credit       int64
	Polled       uint64
	Accounted    uint64
	AccountedNs  uint64
	ThrottledNs  uint64
	ContextBytes uint64
	Refusals     uint64
	Blind        uint64
	Check        uint64
	_            [4]uint64
}

type slot struct {
	PID, NVMLPID uint32
	Started      uint64
	PIDNamespace uint64
	Check        uint64
	Used         [MaxDevices]uint64
	_            [12]uint64
}

type books struct {
	Header header
	Device [MaxDevices]deviceRecord
	_      [slotsAt - 64 - MaxDevices*128]byte
	Slot   [maxSlots]slot
}

// booksBytes is how long a books file is.
var booksBytes = binary.Size(books{})

// ErrDamaged says that books are not what the library left: cut, overwritten,
// or of other limits. The container can allocate nothing more.
var ErrDamaged = errors.New("books are damaged")

// Use is what a container's processes use of one device.
type Use struct {
	UUID         string
	LimitBytes   uint64
	UsedBytes    uint64
	ContextBytes uint64        // what one context was seen to take; 0 before the first
	Throttled    time.Duration // launches have waited so long, all processes together
	Refusals     uint64        // allocations refused for the limit
	Unseen       bool          // NVML shows no use of the device: launches do not wait
	Processes    []Process
}

// Process is one that holds memory of a device.
type Process struct {
	PID       int // in its own pid namespace
	UsedBytes uint64
}

// CreateBooks makes empty books for the limits, writable by every user of the
// container. An existing file is replaced: processes that have it open go on
// with the old one, so that books are made once, before the container starts.
func CreateBooks(path string, l Limits) error {
	if _, err := l.marshal(); err != nil {
		return fmt.Errorf("create books %s: %w", path, err)
	}
	b := books{Header: header{Magic: booksMagic, Nonce: l.Nonce, Devices: uint32(len(l.Devices)), Slots: maxSlots}}
	for i, d := range l.Devices {
		uuid, err := uuidBytes(d.UUID)
		if err != nil {
			return err
		}
		b.Device[i] = deviceRecord{UUID: uuid, Limit: d.MemoryBytes}
		b.Device[i].Check = b.Device[i].check(l.Nonce)
	}
	var data bytes.Buffer
	if err := binary.Write(&data, binary.LittleEndian, &b); err != nil {
		return err
	}
	return writeWhole(path, data.Bytes(), 0o666)
}

// ReadBooks says what the container that has these limits uses, one Use a
// device in the order of the limits. Processes that have died do not count:
// the kernel has dropped their locks. Returns ErrDamaged if the books cannot
// be believed.
func ReadBooks(path string, l Limits) ([]Use, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(booksBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("read books %s: %w", path, err)
	}
	uses, err := parseBooks(data, l, func(i int) bool { return slotLocked(f, i) })
	if err != nil {
		return nil, fmt.Errorf("read books %s: %w", path, err)
	}
	return uses, nil
}

// slotLocked says whether the slot's process lives. It asks for a lock without
// taking it, which a file open for reading may.
func slotLocked(f *os.File, i int) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockAt + lockSlot + int64(i), Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return true
	}
	return l.Type != unix.F_UNLCK
}

func parseBooks(data []byte, l Limits, lives func(slot int) bool) ([]Use, error) {
	var b books
	if len(data) != booksBytes {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrDamaged, len(data), booksBytes)
	}
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, &b); err != nil {
		return nil, err
	}
	h := b.Header
	if h.Magic != booksMagic || h.Slots != maxSlots || h.Nonce != l.Nonce || int(h.Devices) != len(l.Devices) || h.Devices > MaxDevices {
		return nil, fmt.Errorf("%w: nonce %016x and %d devices, want %016x and %d", ErrDamaged, h.Nonce, h.Devices, l.Nonce, len(l.Devices))
	}
	uses := make([]Use, len(l.Devices))
	for i, d := range l.Devices {
		r := b.Device[i]
		if r.Check != r.check(l.Nonce) {
			return nil, fmt.Errorf("%w: device %s has checksum %016x, want %016x", ErrDamaged, d.UUID, r.Check, r.check(l.Nonce))
		}
		uses[i] = Use{UUID: d.UUID, LimitBytes: d.MemoryBytes, ContextBytes: r.ContextBytes, Throttled: time.Duration(r.ThrottledNs), Refusals: r.Refusals, Unseen: r.Blind >= blindAfter}
	}
	for i, s := range b.Slot {
		if err := s.addTo(uses, l.Nonce, func() bool { return lives(i) }); err != nil {
			return nil, fmt.Errorf("slot %d: %w", i, err)
		}
	}
	return uses, nil
}

func (s slot) addTo(uses []Use, nonce uint64, lives func() bool) error {
	if s == (slot{}) || !lives() {
		return nil
	}
	if s.PID == 0 || s.Check != s.check(nonce) {
		return fmt.Errorf("%w: process %d has checksum %016x, want %016x", ErrDamaged, s.PID, s.Check, s.check(nonce))
	}
	for i := range uses {
		if s.Used[i] == 0 {
			continue
		}
		uses[i].UsedBytes += s.Used[i]
		uses[i].Processes = append(uses[i].Processes, Process{PID: int(s.PID), UsedBytes: s.Used[i]})
	}
	return nil
}

// check is slot_check of src/slots.c.
func (s slot) check(nonce uint64) uint64 {
	h := mix(nonce, uint64(s.PID)<<32|uint64(s.NVMLPID))
	h = mix(mix(h, s.Started), s.PIDNamespace)
	for _, used := range s.Used {
		h = mix(h, used)
	}
	return h
}

// check is device_check of src/slots.c.
func (r deviceRecord) check(nonce uint64) uint64 {
	h := nonce
	for _, v := range []uint64{r.Limit, uint64(r.Credit), r.Polled, r.Accounted, r.AccountedNs, r.ThrottledNs, r.ContextBytes, r.Refusals, r.Blind} {
		h = mix(h, v)
	}
	return h
}

func mix(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}
