package volumemgr

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// largeDriver has as many bytes and files as a real driver's 64-bit libraries.
func largeDriver(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	if err := WriteSimulatedDriver(dir, v535); err != nil {
		b.Fatal(err)
	}
	const files, size = 40, 12 << 20
	random := rand.NewChaCha8([32]byte{})
	for i := range files {
		text := bytes.NewBuffer(sharedObject(2, fmt.Sprintf("libnvidia-big%d.so.1", i)))
		filler := make([]byte, size)
		_, _ = random.Read(filler) // never fails
		text.Write(filler)
		path := filepath.Join(dir, amd64, fmt.Sprintf("libnvidia-big%d.so.%s", i, v535))
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// BenchmarkCreate measures discovery and volume creation for a driver of 480 MiB,
// compared with cp of the same files to the same file system. It fails if Create is less
// than 10 times as fast as cp, or takes more than 50 ms for an existing volume.
func BenchmarkCreate(b *testing.B) {
	root := largeDriver(b)
	d, err := FindDriver(root)
	if err != nil {
		b.Fatal(err)
	}
	var sources []string
	for _, f := range d.Files {
		sources = append(sources, f.Source)
	}
	var copying, syncing, creating, again []time.Duration
	timed := func(times *[]time.Duration, f func() error) {
		b.Helper()
		start := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		*times = append(*times, time.Since(start))
	}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		copies, store := filepath.Join(root, "copies", fmt.Sprint(i)), filepath.Join(root, "stores", fmt.Sprint(i))
		// 32-bit and 64-bit libraries have the same names.
		if err := os.MkdirAll(copies, 0o755); err != nil {
			b.Fatal(err)
		}
		timed(&copying, func() error {
			return exec.Command("cp", append([]string{"--backup=numbered", "--reflink=never"}, append(sources, copies)...)...).Run()
		})
		ensure := func() error {
			_, err := EnsureVolume(context.Background(), DriverSearch{Root: root}, Store{Dir: store})
			return err
		}
		// Pending writes of cp must not slow down Create.
		timed(&syncing, func() error { unix.Sync(); return nil })
		b.StartTimer()
		timed(&creating, ensure)
		b.StopTimer()
		timed(&again, ensure)
		if err := os.RemoveAll(copies); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(minSeconds(copying), "cp-ms")
	b.ReportMetric(minSeconds(syncing), "sync-after-cp-ms")
	b.ReportMetric(minSeconds(creating), "create-ms")
	b.ReportMetric(minSeconds(again), "second-ms")
	ratio := minSeconds(copying) / minSeconds(creating)
	b.ReportMetric(ratio, "x-cp")
	if ratio < 10 {
		b.Errorf("a volume is made %.1f times as fast as cp copies it, want 10 times", ratio)
	}
	if ms := minSeconds(again); ms > 50 {
		b.Errorf("a volume that is there costs %.1f ms, want 50 ms at most", ms)
	}
}

// minSeconds returns the minimum in milliseconds, which excludes the effect of other
// programs.
func minSeconds(times []time.Duration) float64 {
	return slices.Min(times).Seconds() * 1e3
}
