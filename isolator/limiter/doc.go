// Package limiter is the two ends of libmesosgpu.so, the C library below src
// that holds a container to its share of a GPU. This side writes the limits
// file and the books that the isolator mounts into the container, and reads
// the books for metrics; it limits nothing itself and loads no library.
//
// The library is preloaded through /etc/ld.so.preload, finds its files at
// LimitsPath and BooksPath and nowhere else, and reads no environment. It takes
// the place of the driver's functions that allocate, show and launch, whether
// a program is linked to them or asks dlsym, dlvsym or cuGetProcAddress.
//
// What holds: the processes of a container together never get more memory than
// the limit by any function of src/hooks.def, also while they race; a dead
// process's bytes are had again by the next that needs them, however it died
// and in whichever pid namespace; launches keep to the core share over time.
// Environment variables, LD_PRELOAD, files in the container, fork and exec
// change nothing. A limits file that is missing, not understood or not on a
// read-only mount, and books that are missing, cut, of another container or
// written by another hand, end all allocation: the task gets
// CUDA_ERROR_OUT_OF_MEMORY and a line on its standard error, and is not killed.
//
// What cannot hold in a library: a program that is statically linked, that
// resolves the driver's functions from the ELF file itself, that brings a libc
// other than glibc, that makes ioctls on /dev/nvidia* itself, or that writes
// books with the right checksum. Root in the container can rename /etc or
// chroot to be rid of /etc/ld.so.preload, unless both are mounts that it may
// not move. The driver's private cuGetExportTable stays open. A limit against
// hostile tasks needs MIG or the driver's own memory limits.
//
// What is counted: the bytes asked for (of pitched memory and arrays what the
// driver says they take, of pools what they have taken from the device), and
// what a context takes, measured once per container and device by NVML while
// it is made. Code and globals of modules are counted where NVML shows a
// process its own use. Not counted: the driver's rounding to pages, local
// memory and heaps that kernels ask for, contexts of the graphics interfaces, memory imported from another process
// or API, which counts where it was made, and stays uncounted if its maker
// lets go first.
package limiter
