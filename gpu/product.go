package gpu

import (
	"fmt"
	"strings"
)

// Product identifies the hardware of a device as far as names of types distinguish it.
type Product struct {
	// Model is the name that NVML reports, of a MIG device with its profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". It may be
	// a short type if an agent reports no more, and "" if nothing is known.
	Model string
	// MemMiB is the memory of the device, 0 if it is not known.
	MemMiB int64
}

// Product returns what names of types distinguish about the device.
func (d *Device) Product() Product {
	if d.MIG == nil || parseTypeName(d.Model).mig {
		return Product{d.Model, d.MemMiB}
	}
	model := d.Model + " MIG"
	if d.MIG.Profile != "" {
		model += " " + d.MIG.Profile
	}
	return Product{model, d.MemMiB}
}

// IsMIG reports whether the device is a MIG device.
func (p Product) IsMIG() bool { return parseTypeName(p.Model).mig }

// displayCard is the type of the cards that drive the display of a workstation. They are for jobs that name them.
const displayCard = "DGX Display"

// IsDisplayCard reports whether the device only drives a display.
func (p Product) IsDisplayCard() bool { return p.Type() == displayCard }

// Type returns the short type, such as "A100"; "" if the product is not known.
func (p Product) Type() string { return TypeOf(p.Model) }

// String returns the name of the product, which names of types are compared with again: the model and, if that has no
// size, the memory, such as "NVIDIA A100-SXM4-80GB" or "Tesla T4 15109MiB". It is "" if the product is not known.
func (p Product) String() string {
	n := parseTypeName(p.Model)
	if p.Model == "" || p.MemMiB <= 0 || n.mig || n.memMiB > 0 || n.sizeGB > 0 && hasNominalSize(p.MemMiB, n.sizeGB) {
		return p.Model
	}
	return fmt.Sprintf("%s %dMiB", p.Model, p.MemMiB)
}

// typeName returns the parts of the product's name.
func (p Product) typeName() *TypeName {
	n := parseTypeName(p.Model)
	if p.MemMiB <= 0 || n.memMiB > 0 {
		return n
	}
	known := *n
	known.memMiB = p.MemMiB
	return &known
}

// CountTypes returns counts by product summed by short type. A combination "A|B" of products becomes one of types.
func CountTypes(products map[string]int) map[string]int {
	if products == nil {
		return nil
	}
	types := make(map[string]int, len(products))
	for name, n := range products {
		types[TypesOf(name)] += n
	}
	return types
}

// TypesOf is TypeOf for the name of a product or a combination "A|B" of such names. It is "" for "".
func TypesOf(product string) string {
	if product == "" {
		return ""
	}
	if !strings.Contains(product, "|") {
		return TypeOf(product)
	}
	var types []string
	for one := range strings.SplitSeq(product, "|") {
		if one != "" {
			one = TypeOf(one)
		}
		types = append(types, one)
	}
	return strings.Join(types, "|")
}
