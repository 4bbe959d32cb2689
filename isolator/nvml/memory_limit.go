//go:build linux && cgo

package nvml

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

// nvmlSetMemoryLimits_v1_t and nvmlGetMemoryLimits_v1_t as NVIDIA's reference
// of NVML has them (docs.nvidia.com/deploy/nvml-api): the one begins as the
// other does. go-nvml does not know them yet.
typedef struct {
	const char *nameSpace;
	unsigned long long softLimit, hardLimit, currentUsed;
} memory_limits;

typedef struct {
	void *so;
	int (*init)(void);
	int (*shutdown)(void);
	int (*driver)(char *, unsigned);
	int (*by_uuid)(const char *, void **);
	int (*set)(void *, memory_limits *);
	int (*get)(void *, memory_limits *);
} limits_library;

static int limits_open(limits_library *l, const char *path)
{
	l->so = dlopen(path, RTLD_LAZY);
	if (!l->so)
		return 0;
	l->init = (int (*)(void))dlsym(l->so, "nvmlInit_v2");
	l->shutdown = (int (*)(void))dlsym(l->so, "nvmlShutdown");
	l->driver = (int (*)(char *, unsigned))dlsym(l->so, "nvmlSystemGetDriverVersion");
	l->by_uuid = (int (*)(const char *, void **))dlsym(l->so, "nvmlDeviceGetHandleByUUID");
	l->set = (int (*)(void *, memory_limits *))dlsym(l->so, "nvmlDeviceSetMemoryLimits_v1");
	l->get = (int (*)(void *, memory_limits *))dlsym(l->so, "nvmlDeviceGetMemoryLimits_v1");
	return l->init && l->shutdown && l->driver && l->by_uuid;
}
static void limits_close(limits_library *l) { if (l->so) dlclose(l->so); }
static int limits_init(limits_library *l) { return l->init(); }
static void limits_shutdown(limits_library *l) { l->shutdown(); }
static int limits_driver(limits_library *l, char *text, unsigned size) { return l->driver(text, size); }
static int limits_by_uuid(limits_library *l, const char *uuid, void **device) { return l->by_uuid(uuid, device); }
static int limits_set(limits_library *l, void *device, memory_limits *m) { return l->set(device, m); }
static int limits_get(limits_library *l, void *device, memory_limits *m) { return l->get(device, m); }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// MemoryLimits has the driver limit how much of a GPU's memory the processes of a cgroup
// allocate. Its methods may be called concurrently; a GPU whose driver hangs does not block
// calls for others. It loads the library for each call.
type MemoryLimits struct {
	c LibraryConfig

	mu sync.Mutex
	// busy has, by GPU, a token that a call about the GPU holds.
	busy map[string]chan struct{}
}

// NewMemoryLimits returns a MemoryLimits. It does not load the library.
func NewMemoryLimits(c LibraryConfig) *MemoryLimits {
	return &MemoryLimits{c: c.withDefaults(), busy: map[string]chan struct{}{}}
}

// CheckSupport returns an error if the GPU's memory cannot be limited. The error names the
// driver's version and the required one.
func (m *MemoryLimits) CheckSupport(uuid string) error {
	return m.withGPU("limit memory of GPU "+uuid, uuid, func(*C.limits_library, unsafe.Pointer) error { return nil })
}

// SetLimit limits how much of a GPU's memory the processes of a cgroup of version 2, and of the
// cgroups below, may use together, in bytes. cgroup is the full path of its folder. The memory
// is not reserved for them. SetLimit requires root.
func (m *MemoryLimits) SetLimit(uuid, cgroup string, bytes uint64) error {
	what := fmt.Sprintf("limit cgroup %s to %d bytes of GPU %s", cgroup, bytes, uuid)
	return m.withGPU(what, uuid, func(l *C.limits_library, device unsafe.Pointer) error {
		limits, free := newLimits(cgroup)
		defer free()
		limits.hardLimit = C.ulonglong(bytes)
		return limitsError(C.limits_set(l, device, limits))
	})
}

// ReadLimit returns a cgroup's limit of a GPU's memory, and its use.
func (m *MemoryLimits) ReadLimit(uuid, cgroup string) (got MemoryLimit, err error) {
	what := fmt.Sprintf("read the limit of cgroup %s on GPU %s", cgroup, uuid)
	err = m.withGPU(what, uuid, func(l *C.limits_library, device unsafe.Pointer) error {
		limits, free := newLimits(cgroup)
		defer free()
		ret := C.limits_get(l, device, limits)
		got = MemoryLimit{uint64(limits.hardLimit), uint64(limits.currentUsed)}
		return limitsError(ret)
	})
	return got, err
}

// newLimits allocates memory of C, because it points to more of it.
func newLimits(cgroup string) (limits *C.memory_limits, free func()) {
	limits = (*C.memory_limits)(C.calloc(1, C.sizeof_memory_limits))
	limits.nameSpace = C.CString(cgroup)
	return limits, func() {
		C.free(unsafe.Pointer(limits.nameSpace))
		C.free(unsafe.Pointer(limits))
	}
}

func limitsError(ret C.int) error {
	if ret == 0 {
		return nil
	}
	return newNVMLError(nvml.Return(ret))
}

func (m *MemoryLimits) gpuToken(uuid string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[uuid] == nil {
		m.busy[uuid] = make(chan struct{}, 1)
	}
	return m.busy[uuid]
}

// withGPU calls do for a GPU while the library is loaded. NVML is not restarted meanwhile.
func (m *MemoryLimits) withGPU(what, uuid string, do func(*C.limits_library, unsafe.Pointer) error) error {
	_, err := callWithTimeout(m.gpuToken(uuid), m.c.StartTimeout, what, func() (struct{}, error) {
		nvmlGate.enter()
		defer nvmlGate.leave()
		if err := m.withLibrary(uuid, do); err != nil {
			return struct{}{}, fmt.Errorf("%s: %w", what, err)
		}
		return struct{}{}, nil
	})
	return err
}

func (m *MemoryLimits) withLibrary(uuid string, do func(*C.limits_library, unsafe.Pointer) error) error {
	path, name := C.CString(m.c.Library), C.CString(uuid)
	defer C.free(unsafe.Pointer(path))
	defer C.free(unsafe.Pointer(name))
	l := (*C.limits_library)(C.calloc(1, C.sizeof_limits_library))
	defer C.free(unsafe.Pointer(l))
	defer C.limits_close(l)
	if C.limits_open(l, path) == 0 {
		return fmt.Errorf("load %s: %w", m.c.Library, ErrNoDriver)
	}
	if err := limitsError(C.limits_init(l)); err != nil {
		return fmt.Errorf("start %s: %w", m.c.Library, err)
	}
	defer C.limits_shutdown(l)
	if l.set == nil || l.get == nil {
		return fmt.Errorf("driver %s has no memory limits, which come with %d: update it", driverVersion(l), minLimitsDriver)
	}
	var device unsafe.Pointer
	if err := limitsError(C.limits_by_uuid(l, name, &device)); err != nil {
		return err
	}
	return do(l, device)
}

// driverVersion returns the driver's version, if the driver reports it.
func driverVersion(l *C.limits_library) string {
	const size = 96
	text := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	if C.limits_driver(l, text, size) != 0 {
		return "of unknown version"
	}
	return C.GoString(text)
}
