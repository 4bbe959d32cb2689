package simulated

import (
	"strings"

	"mesos-gpu/gpu"
)

// gpuProduct contains NVML's values for one type: its product name, its frame
// buffer, which is a little less than the nominal memory, and its compute
// capability (developer.nvidia.com/cuda-gpus).
type gpuProduct struct {
	model  string
	memMiB int64
	arch   string
	// profile is set for the MIG devices of a GPU of the product.
	profile string
}

// brands are NVML's brands by prefix of the product name. A longer prefix
// comes before its own prefixes.
var brands = []struct{ beginning, brand string }{
	{"Tesla ", "tesla"}, {"Quadro RTX ", "quadrortx"}, {"NVIDIA GeForce ", "geforce"}, {"NVIDIA TITAN ", "titan"},
	{"NVIDIA RTX ", "nvidiartx"}, {"NVIDIA ", "nvidia"},
}

func (p gpuProduct) brandName() string {
	for _, b := range brands {
		if strings.HasPrefix(p.model, b.beginning) {
			return b.brand
		}
	}
	return ""
}

// exampleTypes are for error messages.
const exampleTypes = "K80, P100, V100, T4, A100, L40S, H100, RTX 3090"

var products = []gpuProduct{
	{"Tesla K20", 4743, "3.5", ""},
	{"Tesla K40m", 11441, "3.5", ""},
	{"Tesla K80", 11441, "3.7", ""},
	{"Tesla M10", 8129, "5.0", ""},
	{"Tesla M40", 11448, "5.2", ""},
	{"Tesla M60", 7618, "5.2", ""},
	{"Tesla P4", 7611, "6.1", ""},
	{"Tesla P6", 16276, "6.1", ""},
	{"Tesla P40", 22919, "6.1", ""},
	{"Tesla P100-PCIE-16GB", 16280, "6.0", ""},
	{"Tesla P100-SXM2-16GB", 16280, "6.0", ""},
	{"Tesla V100-SXM2-16GB", 16160, "7.0", ""},
	{"Tesla V100-SXM2-32GB", 32510, "7.0", ""},
	{"Tesla V100-PCIE-16GB", 16160, "7.0", ""},
	{"Tesla V100-PCIE-32GB", 32510, "7.0", ""},
	{"Tesla V100S-PCIE-32GB", 32510, "7.0", ""},
	{"Tesla T4", 15109, "7.5", ""},
	{"Tesla T10", 15360, "7.5", ""},
	{"NVIDIA A2", 15356, "8.6", ""},
	{"NVIDIA A10", 23028, "8.6", ""},
	{"NVIDIA A10G", 23028, "8.6", ""},
	{"NVIDIA A16", 15356, "8.6", ""},
	{"NVIDIA A30", 24576, "8.0", ""},
	{"NVIDIA A40", 46068, "8.6", ""},
	{"NVIDIA A100-SXM4-40GB", 40960, "8.0", ""},
	{"NVIDIA A100-SXM4-80GB", 81920, "8.0", ""},
	{"NVIDIA A100-PCIE-40GB", 40960, "8.0", ""},
	{"NVIDIA A100 80GB PCIe", 81920, "8.0", ""},
	{"NVIDIA A800-SXM4-80GB", 81920, "8.0", ""},
	{"NVIDIA L2", 24570, "8.9", ""},
	{"NVIDIA L4", 23034, "8.9", ""},
	{"NVIDIA L20", 46068, "8.9", ""},
	{"NVIDIA L40", 46068, "8.9", ""},
	{"NVIDIA L40S", 46068, "8.9", ""},
	{"NVIDIA H20", 97871, "9.0", ""},
	{"NVIDIA H100 80GB HBM3", 81559, "9.0", ""},
	{"NVIDIA H100 PCIe", 81559, "9.0", ""},
	{"NVIDIA H100 NVL", 95830, "9.0", ""},
	{"NVIDIA H200", 143771, "9.0", ""},
	{"NVIDIA H800", 81559, "9.0", ""},
	{"NVIDIA GH200 480GB", 97871, "9.0", ""},
	{"NVIDIA B100", 183359, "10.0", ""},
	{"NVIDIA B200", 183359, "10.0", ""},
	{"NVIDIA B300 SXM6 AC", 275040, "10.3", ""},
	{"NVIDIA GB200", 189471, "10.0", ""},
	{"NVIDIA GB300", 284208, "10.3", ""},
	{"NVIDIA GB10", 124610, "12.1", ""},
	{"NVIDIA GeForce RTX 2080", 8192, "7.5", ""},
	{"NVIDIA GeForce RTX 2080 Ti", 11264, "7.5", ""},
	{"NVIDIA GeForce RTX 3060", 12288, "8.6", ""},
	{"NVIDIA GeForce RTX 3070", 8192, "8.6", ""},
	{"NVIDIA GeForce RTX 3080", 10240, "8.6", ""},
	{"NVIDIA GeForce RTX 3080 Ti", 12288, "8.6", ""},
	{"NVIDIA GeForce RTX 3090", 24576, "8.6", ""},
	{"NVIDIA GeForce RTX 3090 Ti", 24564, "8.6", ""},
	{"NVIDIA GeForce RTX 4070", 12282, "8.9", ""},
	{"NVIDIA GeForce RTX 4080", 16376, "8.9", ""},
	{"NVIDIA GeForce RTX 4090", 24564, "8.9", ""},
	{"NVIDIA GeForce RTX 5080", 16303, "12.0", ""},
	{"NVIDIA GeForce RTX 5090", 32607, "12.0", ""},
	{"Quadro RTX 4000", 8192, "7.5", ""},
	{"Quadro RTX 5000", 16384, "7.5", ""},
	{"Quadro RTX 6000", 24576, "7.5", ""},
	{"Quadro RTX 8000", 49152, "7.5", ""},
	{"NVIDIA RTX A2000", 6138, "8.6", ""},
	{"NVIDIA RTX A4000", 16376, "8.6", ""},
	{"NVIDIA RTX A4500", 20470, "8.6", ""},
	{"NVIDIA RTX A5000", 24564, "8.6", ""},
	{"NVIDIA RTX A6000", 49140, "8.6", ""},
	{"NVIDIA RTX 4000 Ada Generation", 20475, "8.9", ""},
	{"NVIDIA RTX 5000 Ada Generation", 32760, "8.9", ""},
	{"NVIDIA RTX 6000 Ada Generation", 49140, "8.9", ""},
	{"NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "12.0", ""},
	{"NVIDIA GeForce GTX 1080", 8192, "6.1", ""},
	{"NVIDIA GeForce GTX 1080 Ti", 11264, "6.1", ""},
	{"NVIDIA TITAN V", 12288, "7.0", ""},
	{"NVIDIA TITAN Xp", 12288, "6.1", ""},
	{"NVIDIA TITAN RTX", 24576, "7.5", ""},
	{"NVIDIA DGX Display", 4096, "7.5", ""},
}

// findProduct returns the first product that a name of a GPU type includes, as a job's request does.
func findProduct(name string) (gpuProduct, bool) {
	selector, mig := gpu.TypeSelector{Include: []string{name}}, gpu.MIGProfileOf(name)
	if mig != "" && gpu.NamesMIG(gpu.TypeOf(name)) { // the name has no GPU
		return gpuProduct{}, false
	}
	for _, p := range products {
		one := gpu.Product{Model: p.model, MemMiB: p.memMiB}
		if mig != "" {
			one.Model += " MIG " + mig
		}
		if selector.Match(one) {
			p.profile = mig
			return p, true
		}
	}
	return gpuProduct{}, false
}
