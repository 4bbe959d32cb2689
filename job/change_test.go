package job

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

func TestChangeMessages(t *testing.T) {
	for _, c := range []struct {
		change Change
		want   string
	}{
		{Change{Kind: EditChange, By: "ada", Keys: "gpus 8 to 4, env"}, "edited by ada: gpus 8 to 4, env"},
		{Change{Kind: EditChange}, "edited"},
		{Change{Kind: HoldChange, By: "ada", Reason: "wrong data"}, "held by ada: wrong data"},
		{Change{Kind: ReleaseChange, By: "bob"}, "released by bob"},
		{Change{Kind: RequeueChange, By: "ada", Reason: "a bug"}, "queued again by ada: a bug"},
		{Change{Kind: ApplyChange, By: "ada", Version: 3, Keys: "image, env"}, "version 3 applied by ada: image, env"},
		{Change{Kind: ScaleChange, From: 1, To: 3, By: "ada"}, "scaled from 1 to 3 tasks by ada"},
		{Change{Kind: ScaleChange, From: 3, To: 1, Reason: "queue 0 a task, target 10"}, "scaled from 3 to 1 task: queue 0 a task, target 10"},
		{Change{Kind: "move", By: "ada"}, "move by ada"}, // of a later release
	} {
		if got := c.change.Message(); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.change, got, c.want)
		}
	}
	for _, kind := range ChangeKinds() {
		if c := (Change{Kind: kind}); c.Message() == string(kind) {
			t.Errorf("Message has no text for %s", kind)
		}
	}
}

// TestChangesAreBounded checks that neither scalings by load nor other changes make a job forget the others, and that long
// texts are truncated at a whole character.
func TestChangesAreBounded(t *testing.T) {
	j := &Job{}
	add := func(kind ChangeKind, second int) {
		j.AddChange(Change{Kind: kind, Time: time.Unix(int64(second), 0), Keys: strings.Repeat("é", maxChangeText), Reason: strings.Repeat("x", maxChangeText)})
	}
	add(ReleaseChange, 0)
	shared := j.Changes
	for i := range 3 * MaxChanges {
		add(ScaleChange, 1+i)
	}
	for i := range MaxChanges - 1 {
		add(EditChange, 1000+i)
	}
	if n := len(j.Changes); n != 2*MaxChanges || j.Changes[0].Kind != ReleaseChange || j.Changes[1].Time.Unix() != 2*MaxChanges+1 {
		t.Errorf("%d changes are kept: %v", n, j.Changes)
	}
	add(HoldChange, 2000)
	if n := len(j.Changes); n != 2*MaxChanges || j.Changes[0].Kind != ScaleChange || j.Changes[n-1].Kind != HoldChange {
		t.Errorf("%d changes are kept: %v", n, j.Changes)
	}
	if at := j.LastScaling().Unix(); at != 3*MaxChanges || !(&Job{Changes: shared}).LastScaling().IsZero() {
		t.Errorf("the last scaling was at %d", at)
	}
	if len(shared) != 1 || shared[0].Kind != ReleaseChange {
		t.Errorf("a copy of the job has the changes %v", shared)
	}
	for _, field := range textFieldsOf(t, reflect.TypeFor[Change]()) {
		if field.path == ".Kind" || field.path == ".State" {
			continue // one of a few values
		}
		var c Change
		field.set(reflect.ValueOf(&c).Elem(), strings.Repeat("é", 10_000))
		j.AddChange(c)
		kept := reflect.ValueOf(j.Changes[len(j.Changes)-1]).FieldByName(field.path[1:]).String()
		if len(kept) > maxChangeText+len("…") || !strings.HasSuffix(kept, "éé…") {
			t.Errorf("%s has %d bytes and ends with %q", field.path, len(kept), kept[max(0, len(kept)-8):])
		}
	}
}

// TestInternChangeSharesAllTexts checks that a text that two changes have in common is shared. A field that it names must be
// added to InternChange.
func TestInternChangeSharesAllTexts(t *testing.T) {
	for _, f := range textFieldsOf(t, reflect.TypeFor[Change]()) {
		var parts Interner
		var texts [2]string
		for i := range texts {
			var c Change
			f.set(reflect.ValueOf(&c).Elem(), strings.Clone("a text"))
			parts.InternChange(&c)
			texts[i] = reflect.ValueOf(c).FieldByName(f.path[1:]).String()
		}
		if unsafe.StringData(texts[0]) != unsafe.StringData(texts[1]) {
			t.Errorf("%s is not shared: add it to InternChange", f.path)
		}
	}
}

func TestChangesAreMasked(t *testing.T) {
	changes := []Change{
		{Kind: EditChange, By: "ada", Keys: "role lab/vision to role prod, priority 0 to 5"},
		{Kind: HoldChange, By: "ada", Reason: "makes room for train"},
	}
	masked := maskOf("lab/vision").MaskChanges(changes)
	if got := masked[0].Message() + "; " + masked[1].Message(); got !=
		"edited by ada: role lab/vision to another role, priority 0 to 5; held by ada: makes room for another job" {
		t.Errorf("masked: %s", got)
	}
	if !strings.Contains(changes[0].Keys, "role prod") || &(*NameMask)(nil).MaskChanges(changes)[0] != &changes[0] {
		t.Error("the changes themselves were masked, or copied without a mask")
	}
}
