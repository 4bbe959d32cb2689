package watch

import (
	"slices"
	"testing"

	"mesos-gpu/gpu"
)

// A device held by a container that is no task of the agent is not offered, with the
// holder as the reason, until it is free.
func TestHeldDeviceIsWithheld(t *testing.T) {
	watched(t, three(), func(t *testing.T, _ *fakeDriver, w *Watcher) {
		hosts := w.WatchHosts(t.Context())
		<-hosts
		updates, err := w.WatchConditions(t.Context(), "GPU-b")
		if err != nil {
			t.Fatal(err)
		}
		<-updates
		for _, holder := range []string{"held by container c", "held by container d"} {
			for range 2 { // the second call changes nothing
				w.SetHolders(map[string]string{"GPU-b": holder, "GPU-x": holder})
			}
			if u := <-updates; u.Condition.Holder != holder || u.Condition.Health != gpu.Healthy {
				t.Errorf("got update %+v", u)
			}
			w.mustOffer(t, "GPU-a", "GPU-c")
			want := []gpu.WithheldDevice{{UUID: "GPU-b", Cause: gpu.WithheldHeld, Note: holder}}
			if got := <-hosts; !slices.Equal(got.Withheld, want) {
				t.Errorf("withheld %v, want %v", got.Withheld, want)
			}
		}
		w.SetHolders(nil)
		if u := <-updates; u.Condition.Holder != "" {
			t.Errorf("got update %+v", u)
		}
		w.mustOffer(t, "GPU-a", "GPU-b", "GPU-c")
	})
}
