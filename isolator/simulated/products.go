package simulated

import "mesos-gpu/gpu"

// product is what NVML reports of one type: its product name and its frame
// buffer, which is a little less than on the box.
type product struct {
	model  string
	memMiB int64
}

// examples are for error messages.
const examples = "K80, P100, V100, T4, A100, L40S, H100, RTX 3090"

var products = []product{
	{"Tesla K20", 4743}, {"Tesla K40", 11441}, {"Tesla K80", 11441},
	{"Tesla M10", 8129}, {"Tesla M40", 11448}, {"Tesla M60", 7618},
	{"Tesla P4", 7611}, {"Tesla P6", 16276}, {"Tesla P40", 22919}, {"Tesla P100-PCIE-16GB", 16280},
	{"Tesla V100-SXM2-16GB", 16160}, {"Tesla T4", 15109}, {"Tesla T10", 15360},
	{"NVIDIA A2", 15356}, {"NVIDIA A10", 23028}, {"NVIDIA A10G", 23028}, {"NVIDIA A16", 15356}, {"NVIDIA A30", 24576},
	{"NVIDIA A40", 46068}, {"NVIDIA A100-SXM4-40GB", 40960}, {"NVIDIA A800-SXM4-80GB", 81920},
	{"NVIDIA L2", 24570}, {"NVIDIA L4", 23034}, {"NVIDIA L20", 46068}, {"NVIDIA L40", 46068}, {"NVIDIA L40S", 46068},
	{"NVIDIA H20", 97871}, {"NVIDIA H100 80GB HBM3", 81559}, {"NVIDIA H200", 143771}, {"NVIDIA H800", 81559},
	{"NVIDIA GH200 480GB", 97871}, {"NVIDIA B100", 183359}, {"NVIDIA B200", 183359}, {"NVIDIA B300 SXM6 AC", 275040},
	{"NVIDIA GB200", 189471}, {"NVIDIA GB300", 284208}, {"NVIDIA GB10", 124610},
	{"NVIDIA GeForce RTX 2080", 8192}, {"NVIDIA GeForce RTX 2080 Ti", 11264},
	{"NVIDIA GeForce RTX 3060", 12288}, {"NVIDIA GeForce RTX 3070", 8192}, {"NVIDIA GeForce RTX 3080", 10240},
	{"NVIDIA GeForce RTX 3080 Ti", 12288}, {"NVIDIA GeForce RTX 3090", 24576}, {"NVIDIA GeForce RTX 3090 Ti", 24564},
	{"NVIDIA GeForce RTX 4070", 12282}, {"NVIDIA GeForce RTX 4080", 16376}, {"NVIDIA GeForce RTX 4090", 24564},
	{"NVIDIA GeForce RTX 5080", 16303}, {"NVIDIA GeForce RTX 5090", 32607},
	{"Quadro RTX 4000", 8192}, {"Quadro RTX 5000", 16384}, {"Quadro RTX 6000", 24576}, {"Quadro RTX 8000", 49152},
	{"NVIDIA RTX A2000", 6138}, {"NVIDIA RTX A4000", 16376}, {"NVIDIA RTX A4500", 20470}, {"NVIDIA RTX A5000", 24564}, {"NVIDIA RTX A6000", 49140},
	{"NVIDIA RTX 4000 Ada Generation", 20475}, {"NVIDIA RTX 5000 Ada Generation", 32760}, {"NVIDIA RTX 6000 Ada Generation", 49140},
	{"NVIDIA GeForce GTX 1080", 8192}, {"NVIDIA GeForce GTX 1080 Ti", 11264},
	{"NVIDIA TITAN V", 12288}, {"NVIDIA TITAN Xp", 12288}, {"NVIDIA TITAN RTX", 24576},
}

// find takes a short type or a product name, as a job's wish does.
func find(name string) (product, bool) {
	wish := gpu.Types{Include: []string{name}}
	for _, p := range products {
		if wish.Match(p.model) {
			return p, true
		}
	}
	return product{}, false
}
