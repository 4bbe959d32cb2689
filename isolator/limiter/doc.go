// Package limiter is the host's side of libmesosgpu.so, the C library in src that limits a
// container to its share of a GPU. It writes the limits file and the usage file that the
// isolator mounts into the container, and reads the usage file for metrics. It enforces nothing
// itself and loads no library.
//
// The library is preloaded through /etc/ld.so.preload. It reads its files at LimitsPath and
// UsagePath only, and no environment variable. It replaces the driver's functions that
// allocate, report and launch, whether a program is linked to them or gets them from dlsym,
// dlvsym or cuGetProcAddress. Lookups that a program gets by name from dlsym or dlvsym are the
// library's too.
//
// The library guarantees: The processes of a container together never get more memory than the
// limit through any function in src/hooks.def, also if they race. The memory of a dead process
// is available again to the next process that needs it, however it died and in whichever pid
// namespace. The memory of a living process is not, whatever files it closes. Launches keep to
// the core share over time. Environment variables, files in the container, fork, exec and
// cancelled threads change nothing. A program for which LD_PRELOAD loads a library with
// functions of the same names before this one, as in libcuda.so.1 or libc.so.6, ends with exit
// code 126 and a message. All allocation fails if the limits file is missing, invalid or not on
// a read-only mount, or if the usage file is missing, truncated, emptied, of another container
// or modified by other software. The task gets CUDA_ERROR_OUT_OF_MEMORY and a message on its
// standard error, and is not killed. The library does not return versions of a hooked function
// that it does not know. If NVML reports no use of a device, as in MIG mode, or NVML is not in
// the image, the core share is not enforced, and a message and the usage file say so.
//
// A library cannot limit a program that is statically linked, that resolves the driver's
// functions from the ELF file itself, that brings a libc other than glibc, that loads the
// driver into a separate namespace with dlmopen, that has its calls bound elsewhere by LD_AUDIT
// or exports dlsym itself, that makes ioctls on /dev/nvidia* itself, or that writes a usage
// file with the right checksum. Root in the container can rename /etc or use chroot to avoid
// /etc/ld.so.preload, unless both are mounts that it may not move. The driver's private
// cuGetExportTable is not hooked. A limit against hostile tasks needs MIG or the driver's own
// memory limits.
//
// The library counts the bytes requested, for pitched memory what the driver reports, for
// arrays whole blocks, for pools what they have taken from the device, for graphs what the
// nodes of graphs that exist need, for imported handles what is mapped of them, the heap for
// kernels if a program sets it, and the size of a context as NVML reports it, measured one at a
// time on the host. Managed memory counts on the device that was current, wherever it moves. A
// handle that was mapped into a sparse array counts until the process ends. Code and globals of
// modules count if NVML reports a process's own use. A green context counts next to the primary
// context that it keeps. What a program looks up itself in a second copy of the driver, loaded by
// dlmopen, reaches the first copy and fails. The library does not count the driver's
// rounding to pages, local memory of kernels, contexts of graphics interfaces, and memory
// shared by cuIpcOpenMemHandle or from another API, which counts where it was allocated.
package limiter
