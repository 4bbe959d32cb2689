package artifacts

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSparseArtifactsStaySparse checks that a file of zeros with a little data takes little disk in the store, and has its content
// and its size, whether it ends with data or with zeros.
func TestSparseArtifactsStaySparse(t *testing.T) {
	const size = 16<<20 + 5
	s := folderStorage{t.TempDir()}
	for name, at := range map[string]int{"in the middle": 5<<20 + 7, "at the end": size - 1, "at the start": 0} {
		content := make([]byte, size)
		content[at] = 'x'
		u, err := s.newUpload(t.Context(), "job/1/0")
		if err != nil {
			t.Fatal(err)
		}
		if err := u.writeFile(t.Context(), "model/big", io.MultiReader(bytes.NewReader(content[:1000]), bytes.NewReader(content[1000:])), size); err != nil {
			t.Fatal(err)
		}
		if err := u.commit(); err != nil {
			t.Fatal(err)
		}
		u.close()
		path := filepath.Join(s.root, "job/1/0/model/big")
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v; want the content", name, len(got), err)
		}
		var info syscall.Stat_t
		if err := syscall.Stat(path, &info); err != nil {
			t.Fatal(err)
		}
		if used := info.Blocks * 512; used > 1<<20 {
			t.Errorf("%s: it takes %d bytes of the disk for one byte that is not zero", name, used)
		}
	}
}
