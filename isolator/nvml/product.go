//go:build linux && cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// brandNames are the names of brands in NVIDIA_REQUIRE_CUDA of NVIDIA's images. NVML has no
// names.
var brandNames = map[nvml.BrandType]string{
	nvml.BRAND_UNKNOWN: "unknown", nvml.BRAND_QUADRO: "quadro", nvml.BRAND_TESLA: "tesla", nvml.BRAND_NVS: "nvs",
	nvml.BRAND_GRID: "grid", nvml.BRAND_GEFORCE: "geforce", nvml.BRAND_TITAN: "titan",
	nvml.BRAND_NVIDIA_VAPPS: "vapps", nvml.BRAND_NVIDIA_VPC: "vpc", nvml.BRAND_NVIDIA_VCS: "vcs",
	nvml.BRAND_NVIDIA_VWS: "vws", nvml.BRAND_NVIDIA_CLOUD_GAMING: "cloudgaming",
	nvml.BRAND_QUADRO_RTX: "quadrortx", nvml.BRAND_NVIDIA_RTX: "nvidiartx", nvml.BRAND_NVIDIA: "nvidia",
	nvml.BRAND_GEFORCE_RTX: "geforcertx", nvml.BRAND_TITAN_RTX: "titanrtx",
}

// brandName returns the brand, "" if the driver does not report it or it is newer than this
// list.
func (s *nvmlSession) brandName(handle nvml.Device) string {
	if !s.has["nvmlDeviceGetBrand"] {
		return ""
	}
	b, ret := handle.GetBrand()
	if ret != nvml.SUCCESS {
		return ""
	}
	return brandNames[b]
}

// computeCapability returns for example "7.0", "" if the driver does not report it.
func (s *nvmlSession) computeCapability(handle nvml.Device) string {
	if !s.has["nvmlDeviceGetCudaComputeCapability"] {
		return ""
	}
	major, minor, ret := handle.GetCudaComputeCapability()
	if ret != nvml.SUCCESS {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}
