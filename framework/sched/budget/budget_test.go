package budget

import (
	"math"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/quota"
)

func TestUsageCountsOnlyTheMonth(t *testing.T) {
	month := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		from, to time.Duration
		want     float64 // seconds of a GPU
	}{
		{"inside", time.Hour, 2 * time.Hour, 3600},
		{"before", -2 * time.Hour, -time.Hour, 0},
		{"up to its start", -time.Hour, 0, 0},
		{"over its start", -time.Hour, time.Hour, 3600},
		{"over its end", 28*24*time.Hour - time.Minute, 28*24*time.Hour + time.Hour, 60},
		{"after its end", 28 * 24 * time.Hour, 29 * 24 * time.Hour, 0},
		{"longer than it", -time.Hour, 40 * 24 * time.Hour, 28 * 24 * 3600},
		{"a clock that went back", 2 * time.Hour, time.Hour, 0},
	} {
		used := Usage{}
		used.Add(Key{Role: "a"}, 2500, month, month.Add(c.from), month.Add(c.to))
		if got := used[Key{Role: "a"}]; got != 2.5*c.want {
			t.Errorf("%s: %g, want %g", c.name, got, 2.5*c.want)
		}
	}
}

func TestMonthOf(t *testing.T) {
	east := time.FixedZone("", 3600)
	if got := MonthOf(time.Date(2026, 3, 1, 0, 30, 0, 0, east)); !got.Equal(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)) {
		t.Error(got)
	}
}

// entryText is an Entry without its settings.
type entryText struct {
	user, gpuType string
	used, amount  float64
}

func entriesOf(b *Budget, role string, used Usage) (list []entryText) {
	for _, e := range b.Entries(role, used) {
		list = append(list, entryText{e.User, e.Type, math.Round(e.Used*1e6) / 1e6, e.Amount})
	}
	return list
}

func checkEntries(t *testing.T, got []entryText, want ...entryText) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("got %v, want %v", got[i], want[i])
		}
	}
}

func hours(n float64) float64 { return n * 3600 }

func TestEntries(t *testing.T) {
	used := Usage{
		{"lab", "ann", "NVIDIA A100-SXM4-40GB"}: hours(3),
		{"lab", "ann", "V100"}:                  hours(2),
		{"lab/vision", "bob", "A100"}:           hours(4),
		{"lab/vision", "", "A100|V100"}:         hours(1),
		{"lab", "bob", ""}:                      hours(0.5),
		{"laboratory", "ann", "A100"}:           hours(100),
	}
	b := &Budget{
		Month:      1000,
		Types:      map[string]float64{"A100": 5},
		EachUser:   100,
		NamedUsers: map[string]float64{"bob": 200, "eve": 7, "zoe": 0},
	}
	checkEntries(t, entriesOf(b, "lab", used),
		entryText{"", "*", 10.5, 1000}, entryText{"", "A100", 8, 5},
		entryText{"ann", "*", 5, 100}, entryText{"bob", "*", 4.5, 200}, entryText{"eve", "*", 0, 7})
	checkEntries(t, entriesOf(&Budget{Month: 10}, "lab/vision", used), entryText{"", "*", 5, 10})
	priced := &Budget{Month: 10, EachUser: 20, Prices: map[string]float64{"A100": 3, "V100": 0.5, quota.AllTypes: 1}}
	checkEntries(t, entriesOf(priced, "lab", used),
		entryText{"", "*", 3*3 + 2*0.5 + 4*3 + 1*3 + 0.5, 10}, entryText{"ann", "*", 10, 20}, entryText{"bob", "*", 12.5, 20})
}

func TestEntryTexts(t *testing.T) {
	month := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		entry     Entry
		name, use string
	}{
		{
			Entry{Role: "lab", Type: quota.AllTypes, Used: 1003.24, Amount: 1000},
			"the budget of role lab", "1003.2 of 1000 GPU hours of 2026-11 are used",
		},
		{
			Entry{Role: "lab", Type: "A100", Used: 0.00123456, Amount: 0.001, IsPriced: true},
			"the budget of role lab for A100", "0.001235 of 0.001 of 2026-11 are used",
		},
		{
			Entry{Role: "lab", User: "ann", Type: quota.AllTypes, Amount: 20},
			"the budget of user ann in role lab", "0 of 20 GPU hours of 2026-11 are used",
		},
	} {
		if name, use := c.entry.Name(), c.entry.DescribeUse(month); name != c.name || use != c.use {
			t.Errorf("%q, %q", name, use)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, b := range map[string]Budget{
		"":                          {Month: 1, Types: map[string]float64{"A100": 1}, AtLimit: Lower, WarnAt: 1},
		"month -1 is not between":   {Month: -1},
		"users: ann NaN":            {NamedUsers: map[string]float64{"ann": math.NaN()}},
		"all types is month":        {Types: map[string]float64{"*": 1}},
		`prices: "*"`:               {Prices: map[string]float64{"A100": 1}},
		`at_limit "stop" is not`:    {AtLimit: "stop"},
		"warn_at 1.5 is not":        {WarnAt: 1.5},
		"prices: A100 -1 is not be": {Prices: map[string]float64{"A100": -1, "*": 1}},
	} {
		err := b.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
