// Package limiter is the two ends of libmesosgpu.so, the C library below src
// that holds a container to its share of a GPU. This side writes the limits
// file and the books that the isolator mounts into the container, and reads
// the books for metrics; it limits nothing itself and loads no library.
//
// The library is preloaded through /etc/ld.so.preload, finds its files at
// LimitsPath and UsagePath and nowhere else, and reads no environment. It takes
// the place of the driver's functions that allocate, show and launch, whether
// a program is linked to them or asks dlsym, dlvsym or cuGetProcAddress.
//
// What holds: the processes of a container together never get more memory than
// the limit by any function of src/hooks.def, also while they race; a dead
// process's bytes are had again by the next that needs them, however it died
// and in whichever pid namespace, and a living one's are not, whatever files it
// closes; launches keep to the core share over time. Environment variables,
// files in the container, fork, exec and threads that are cancelled change
// nothing. A program that has LD_PRELOAD put a library before this one which has
// functions of the same names, as libcuda.so.1 or libc.so.6 have, ends with exit
// code 126 and a line. A limits file that is missing, not understood or not on a
// read-only mount, and books that are missing, cut, emptied, of another container
// or written by another hand, end all allocation: the task gets
// CUDA_ERROR_OUT_OF_MEMORY and a line on its standard error, and is not killed.
// A version of a hooked function that the library does not know is not handed
// out. Where NVML shows no use of a device, as in MIG mode, or is not in the
// image, its core share is not kept, and a line and the books say so.
//
// What cannot hold in a library: a program that is statically linked, that
// resolves the driver's functions from the ELF file itself, that brings a libc
// other than glibc, that loads the driver into a namespace of its own by dlmopen,
// has its calls bound elsewhere by LD_AUDIT or itself exports dlsym, that makes
// ioctls on /dev/nvidia* itself, or that writes books with the right checksum.
// Root in the container can rename /etc or chroot to be rid of
// /etc/ld.so.preload, unless both are mounts that it may not move. The driver's
// private cuGetExportTable stays open. A limit against hostile tasks needs MIG or
// the driver's own memory limits.
//
// What is counted: the bytes asked for, of pitched memory what the driver says
// it takes, of arrays whole blocks, of pools what they have taken from the
// device, of graphs what the nodes of those that are not destroyed come to, of
// imported handles what is mapped of them, the heap that kernels allocate from
// where a program sets it, and what a context takes by NVML, one at a time on the
// host. Managed memory counts on the device that was current, wherever it moves.
// A handle that was mapped into a sparse array counts until the process ends.
// Code and globals of modules are counted where NVML shows a process its own use.
// Not counted: the driver's rounding to pages, local memory of kernels, contexts
// of the graphics interfaces, and memory shared by cuIpcOpenMemHandle or from
// another API, which counts where it was made.
package limiter
