package offers

import (
	"testing"
	"time"
)

func TestFilters(t *testing.T) {
	start := time.Unix(100, 0)
	f := NewFilters[string](func(have, want int) bool { return want <= have })
	f.Add("a", 2, start.Add(10*time.Second))
	f.Add("b", 1, start.Add(20*time.Second))
	for _, tc := range []struct {
		name, slot string
		amount     int
		after      time.Duration
		want       bool
	}{
		{"as much as was refused", "a", 2, 0, true},
		{"more than was refused", "a", 3, 0, false},
		{"another slot", "c", 1, 0, false},
		{"expired", "a", 2, 10 * time.Second, false},
	} {
		if got := f.Refuses(tc.slot, tc.amount, start.Add(tc.after)); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
	f.RemoveExpired(start.Add(10 * time.Second))
	if len(f.bySlot) != 1 || !f.Refuses("b", 1, start) {
		t.Errorf("after the expiry of one filter: %v", f.bySlot)
	}
	f.Remove(func(slot string) bool { return slot == "b" })
	if f.Refuses("b", 1, start) {
		t.Error("a removed filter still refuses")
	}
	if (*Filters[string, int])(nil).Refuses("a", 1, start) {
		t.Error("nil Filters refuse resources")
	}
}
