package term

import "testing"

func TestFormatBytes(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1 MiB", 1<<20 - 100: "1023.9 KiB", 1 << 20: "1 MiB",
		3 << 30: "3 GiB", 5 << 50: "5120 TiB",
	} {
		if got := FormatBytes(bytes); got != want {
			t.Errorf("%d: got %q, want %q", bytes, got, want)
		}
	}
}
