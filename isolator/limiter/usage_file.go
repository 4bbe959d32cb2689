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

	"mesos-gpu/internal/atomicfile"
)

// The layout of src/books.h.
const (
	usageMagic     = 0x32534b4f4f42474d // "MGBOOKS2"
	maxSlots       = 128
	slotsAt        = 4096
	lockAt         = 1 << 40
	lockSlot       = 16
	noSamplesAfter = 40 // of src/throttle.c
)

type usageHeader struct {
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
	NoSamples    uint64
	Checksum     uint64
	_            [4]uint64
}

type processSlot struct {
	PID, NVMLPID uint32
	Started      uint64
	PIDNamespace uint64
	Checksum     uint64
	Used         [MaxDevices]uint64
	_            [12]uint64
}

type usageFile struct {
	Header usageHeader
	Device [MaxDevices]deviceRecord
	_      [slotsAt - 64 - MaxDevices*128]byte
	Slot   [maxSlots]processSlot
}

// usageFileBytes is how long a books file is.
var usageFileBytes = binary.Size(usageFile{})

// ErrDamaged says that books are not what the library left: cut, overwritten,
// or of other limits. The container can allocate nothing more.
var ErrDamaged = errors.New("books are damaged")

// ContainerUsage is what a container's processes use of one device.
type ContainerUsage struct {
	UUID         string
	LimitBytes   uint64
	UsedBytes    uint64
	ContextBytes uint64        // what one context was seen to take; 0 before the first
	Throttled    time.Duration // launches have waited so long, all processes together
	Refusals     uint64        // allocations refused for the limit
	NotMeasured  bool          // NVML shows no use of the device: launches do not wait
	Processes    []ProcessUsage
}

// ProcessUsage is one that holds memory of a device.
type ProcessUsage struct {
	PID       int // in its own pid namespace
	UsedBytes uint64
}

// CreateUsageFile makes empty books for the limits, writable by every user of the
// container. An existing file is replaced: processes that have it open go on
// with the old one, so that books are made once, before the container starts.
func CreateUsageFile(path string, l ContainerLimits) error {
	if _, err := l.marshalText(); err != nil {
		return fmt.Errorf("create books %s: %w", path, err)
	}
	b := usageFile{Header: usageHeader{Magic: usageMagic, Nonce: l.Nonce, Devices: uint32(len(l.Devices)), Slots: maxSlots}}
	for i, d := range l.Devices {
		uuid, err := parseUUID(d.UUID)
		if err != nil {
			return err
		}
		b.Device[i] = deviceRecord{UUID: uuid, Limit: d.MemoryBytes}
		b.Device[i].Checksum = b.Device[i].computeChecksum(l.Nonce)
	}
	var data bytes.Buffer
	if err := binary.Write(&data, binary.LittleEndian, &b); err != nil {
		return err
	}
	return atomicfile.Replace(path, data.Bytes(), 0o666)
}

// ReadUsageFile says what the container that has these limits uses, one Use a
// device in the order of the limits. Processes that have died do not count:
// the kernel has dropped their locks. Returns ErrDamaged if the books cannot
// be believed.
func ReadUsageFile(path string, l ContainerLimits) ([]ContainerUsage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(usageFileBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("read books %s: %w", path, err)
	}
	uses, err := parseUsageFile(data, l, func(i int) bool { return isSlotLocked(f, i) })
	if err != nil {
		return nil, fmt.Errorf("read books %s: %w", path, err)
	}
	return uses, nil
}

// isSlotLocked says whether the slot's process lives. It asks for a lock without
// taking it, which a file open for reading may.
func isSlotLocked(f *os.File, i int) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockAt + lockSlot + int64(i), Len: 1}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return true
	}
	return l.Type != unix.F_UNLCK
}

func parseUsageFile(data []byte, l ContainerLimits, lives func(slot int) bool) ([]ContainerUsage, error) {
	var b usageFile
	if len(data) != usageFileBytes {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrDamaged, len(data), usageFileBytes)
	}
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, &b); err != nil {
		return nil, err
	}
	h := b.Header
	if h.Magic != usageMagic || h.Slots != maxSlots || h.Nonce != l.Nonce || int(h.Devices) != len(l.Devices) || h.Devices > MaxDevices {
		return nil, fmt.Errorf("%w: nonce %016x and %d devices, want %016x and %d", ErrDamaged, h.Nonce, h.Devices, l.Nonce, len(l.Devices))
	}
	uses := make([]ContainerUsage, len(l.Devices))
	for i, d := range l.Devices {
		r := b.Device[i]
		if r.Checksum != r.computeChecksum(l.Nonce) {
			return nil, fmt.Errorf("%w: device %s has checksum %016x, want %016x", ErrDamaged, d.UUID, r.Checksum, r.computeChecksum(l.Nonce))
		}
		uses[i] = ContainerUsage{UUID: d.UUID, LimitBytes: d.MemoryBytes, ContextBytes: r.ContextBytes, Throttled: time.Duration(r.ThrottledNs), Refusals: r.Refusals, NotMeasured: r.NoSamples >= noSamplesAfter}
	}
	for i, s := range b.Slot {
		if err := s.addUsage(uses, l.Nonce, func() bool { return lives(i) }); err != nil {
			return nil, fmt.Errorf("slot %d: %w", i, err)
		}
	}
	return uses, nil
}

func (s processSlot) addUsage(uses []ContainerUsage, nonce uint64, lives func() bool) error {
	if s == (processSlot{}) || !lives() {
		return nil
	}
	if s.PID == 0 || s.Checksum != s.computeChecksum(nonce) {
		return fmt.Errorf("%w: process %d has checksum %016x, want %016x", ErrDamaged, s.PID, s.Checksum, s.computeChecksum(nonce))
	}
	for i := range uses {
		if s.Used[i] == 0 {
			continue
		}
		uses[i].UsedBytes += s.Used[i]
		uses[i].Processes = append(uses[i].Processes, ProcessUsage{PID: int(s.PID), UsedBytes: s.Used[i]})
	}
	return nil
}

// computeChecksum is slot_check of src/slots.c.
func (s processSlot) computeChecksum(nonce uint64) uint64 {
	h := mixHash(nonce, uint64(s.PID)<<32|uint64(s.NVMLPID))
	h = mixHash(mixHash(h, s.Started), s.PIDNamespace)
	for _, used := range s.Used {
		h = mixHash(h, used)
	}
	return h
}

// computeChecksum is device_check of src/slots.c.
func (r deviceRecord) computeChecksum(nonce uint64) uint64 {
	h := nonce
	for _, v := range []uint64{r.Limit, uint64(r.Credit), r.Polled, r.Accounted, r.AccountedNs, r.ThrottledNs, r.ContextBytes, r.Refusals, r.NoSamples} {
		h = mixHash(h, v)
	}
	return h
}

func mixHash(h, v uint64) uint64 {
	h = (h ^ v) * 0xff51afd7ed558ccd
	return h ^ h>>32
}
