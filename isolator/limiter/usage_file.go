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

// The layout of src/usage_file.h.
const (
	usageMagic     = 0x32534b4f4f42474d // "MGBOOKS2"
	maxSlots       = 128
	slotsAt        = 4096
	lockAt         = 1 << 40
	lockSlot       = 16
	noSamplesAfter = 40 // no_samples_after of src/throttle.c
)

// usageHeader, deviceRecord and processSlot have the layout of src/usage_file.h, which describes
// each field. The library changes them while the container runs.
type usageHeader struct {
	Magic, Nonce   uint64
	Devices, Slots uint32
	HostLockMissed uint64
	_              [4]uint64
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

// usageFileBytes is the size of a usage file.
var usageFileBytes = binary.Size(usageFile{})

// ErrDamaged is returned for a usage file that is truncated, overwritten, or has other limits.
// The container can allocate no more memory.
var ErrDamaged = errors.New("usage file is damaged")

// ContainerUsage is the usage of one device by a container's processes.
type ContainerUsage struct {
	UUID         string
	LimitBytes   uint64
	UsedBytes    uint64
	ContextBytes uint64        // the measured size of one context; 0 before the first
	Throttled    time.Duration // how long launches have waited, all processes together
	Refusals     uint64        // allocations that the limit rejected
	NotMeasured  bool          // NVML reports no use of the device: launches do not wait
	Processes    []ProcessUsage
}

// ProcessUsage is the use of one process with memory of a device.
type ProcessUsage struct {
	PID       int // in the process's own pid namespace
	UsedBytes uint64
}

// CreateUsageFile creates an empty usage file for the limits, writable by every user of the
// container. It replaces an existing file. Processes that have the old file open keep using it,
// so the file must be created before the container starts, and only once.
func CreateUsageFile(path string, l ContainerLimits) error {
	if _, err := l.marshalText(); err != nil {
		return fmt.Errorf("create usage file %s: %w", path, err)
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

// ReadUsageFile returns what the container with these limits uses, one ContainerUsage for each
// device in the order of the limits. Processes that have died do not count: the kernel has
// released their locks. It returns ErrDamaged if the file is not valid.
func ReadUsageFile(path string, l ContainerLimits) ([]ContainerUsage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(usageFileBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("read usage file %s: %w", path, err)
	}
	uses, err := parseUsageFile(data, l, func(i int) bool { return isSlotLocked(f, i) })
	if err != nil {
		return nil, fmt.Errorf("read usage file %s: %w", path, err)
	}
	return uses, nil
}

// isSlotLocked reports whether the slot's process is alive. It queries the lock without taking
// it, which a file opened for reading may do.
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
		uses[i] = ContainerUsage{
			UUID:         d.UUID,
			LimitBytes:   d.MemoryBytes,
			ContextBytes: r.ContextBytes,
			Throttled:    time.Duration(r.ThrottledNs),
			Refusals:     r.Refusals,
			NotMeasured:  r.NoSamples >= noSamplesAfter,
		}
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

// computeChecksum is slot_checksum of src/slots.c.
func (s processSlot) computeChecksum(nonce uint64) uint64 {
	h := mixHash(nonce, uint64(s.PID)<<32|uint64(s.NVMLPID))
	h = mixHash(mixHash(h, s.Started), s.PIDNamespace)
	for _, used := range s.Used {
		h = mixHash(h, used)
	}
	return h
}

// computeChecksum is device_checksum of src/slots.c.
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
