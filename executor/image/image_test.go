package image

import "testing"

func TestNeedsDriver(t *testing.T) {
	label := map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}
	tests := []struct {
		name   string
		labels map[string]string
		env    []string
		want   bool
	}{
		{name: "nothing said"},
		{name: "label", labels: label, want: true},
		{name: "label among other volumes", labels: map[string]string{"com.nvidia.volumes.needed": "data nvidia_driver"}, want: true},
		{name: "label for another volume", labels: map[string]string{"com.nvidia.volumes.needed": "data"}},
		{name: "label without a value", labels: map[string]string{"com.nvidia.volumes.needed": ""}},
		{name: "another label", labels: map[string]string{"com.ati.volumes.needed": "nvidia_driver"}},
		{name: "all devices", env: []string{"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"}, want: true},
		{name: "devices by uuid", env: []string{"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b"}, want: true},
		{name: "none still has libraries", env: []string{"NVIDIA_VISIBLE_DEVICES=none"}, want: true},
		{name: "void", env: []string{"NVIDIA_VISIBLE_DEVICES=void"}},
		{name: "empty", env: []string{"NVIDIA_VISIBLE_DEVICES="}},
		{name: "void beats the label", labels: label, env: []string{"NVIDIA_VISIBLE_DEVICES=void"}},
		{name: "empty beats the label", labels: label, env: []string{"NVIDIA_VISIBLE_DEVICES="}},
		{name: "all beside another label", labels: map[string]string{"a": "b"}, env: []string{"NVIDIA_VISIBLE_DEVICES=all"}, want: true},
		{name: "first entry counts", env: []string{"NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=all"}},
		{name: "entry without a value is none", labels: label, env: []string{"NVIDIA_VISIBLE_DEVICES"}, want: true},
		{name: "similar variable", env: []string{"XNVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES_=all"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := NeedsDriver(tt.labels, tt.env); got != tt.want {
				t.Errorf("NeedsDriver(%v, %v): got %v, want %v", tt.labels, tt.env, got, tt.want)
			}
		})
	}
}
