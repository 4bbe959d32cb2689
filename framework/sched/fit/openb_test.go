package fit

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"math"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"mesos-gpu/gpu"
)

// openb is the recorded cluster of testdata/README.md.
type openb struct {
	agents []Agent
	tasks  []Demand
	milli  int // of all GPUs
}

func readColumns(t testing.TB, file string) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

func numbers(t testing.TB, row []string) []int {
	t.Helper()
	list := make([]int, len(row))
	for i, s := range row {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		list[i] = n
	}
	return list
}

// readOpenb names the agents by the given permutation, as the published
// experiment does to settle ties; nil keeps their order.
func readOpenb(t testing.TB, perm []int) *openb {
	t.Helper()
	o := &openb{}
	for i, row := range readColumns(t, "openb_nodes.csv.gz") {
		n := numbers(t, row[:4])
		a := Agent{ID: "agent-" + row[0], Free: Amount{CPUs: float64(n[1]) / 1000, MemMiB: float64(n[2])}, GPUs: n[3], Types: []string{row[4]}, Divisible: true}
		if perm != nil {
			a.ID = fmt.Sprintf("%04d-%s", perm[i], a.ID)
		}
		for g := range a.GPUs {
			d := gpu.Device{UUID: fmt.Sprintf("GPU-%s-%d", row[0], g), Model: row[4], Minor: g, NUMA: -1}
			a.Inventory = append(a.Inventory, d)
			a.DeviceIDs = append(a.DeviceIDs, d.UUID)
		}
		o.milli += a.GPUs * wholeDevice
		o.agents = append(o.agents, a)
	}
	for _, row := range readColumns(t, "openb_pods_default.csv.gz") {
		n := numbers(t, row)
		d := Demand{Amount: Amount{CPUs: float64(n[0]) / 1000, MemMiB: float64(n[1])}, Request: gpu.Request{GPUs: n[2]}}
		if n[3] < wholeDevice {
			d.Request.Share = Thousandths(n[3])
		}
		o.tasks = append(o.tasks, d)
	}
	return o
}

func (d *Demand) gpuMilli() int {
	if !d.Request.Share.Whole() {
		return int(d.Request.Share.MemMiB)
	}
	return d.Request.GPUs * wholeDevice
}

// typical are the distinct tasks, most frequent first, up to 95 % of all.
func (o *openb) typical() []Typical {
	type shape struct {
		cpus  float64
		gpus  int
		share gpu.Share
	}
	count := map[shape]int{}
	var order []shape
	for _, d := range o.tasks {
		s := shape{d.Amount.CPUs, d.Request.GPUs, d.Request.Share}
		if count[s] == 0 {
			order = append(order, s)
		}
		count[s]++
	}
	slices.SortStableFunc(order, func(a, b shape) int { return count[b] - count[a] })
	var list []Typical
	sum := 0
	for _, s := range order {
		d := Demand{Amount: Amount{CPUs: s.cpus}, Request: gpu.Request{GPUs: s.gpus, Share: s.share}}
		list = append(list, Typical{Demand: d, Weight: float64(count[s])})
		if sum += count[s]; float64(sum) >= 0.95*float64(len(o.tasks)) {
			break
		}
	}
	return list
}

// arrivals is the published experiment's sequence: the tasks shuffled, then
// more of them drawn until they ask for 1.3 times the cluster's GPUs.
func (o *openb) arrivals(r *rand.Rand) []Demand {
	list := slices.Clone(o.tasks)
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	asked := 0
	for i := range list {
		asked += list[i].gpuMilli()
	}
	for {
		d := o.tasks[r.Intn(len(o.tasks))]
		if float64(asked+d.gpuMilli()) > 1.3*float64(o.milli) {
			return list
		}
		asked += d.gpuMilli()
		list = append(list, d)
	}
}

// TestFGDAllocatesAsPublished plays the experiment of the FGD paper with its
// first seed. Cells are the published simulator's mean of ten seeds and their
// standard deviation.
func TestFGDAllocatesAsPublished(t *testing.T) {
	r := rand.New(rand.NewSource(42))
	r.Int()
	base := readOpenb(t, nil)
	arrivals := base.arrivals(r)
	o := readOpenb(t, r.Perm(len(base.agents)))
	c := NewCluster(o.agents, Policy{Name: "fgd", Typical: o.typical()}, time.Time{})
	sum, n := map[int]float64{}, map[int]float64{}
	arrived, used := 0, 0
	for i := range arrivals {
		d := &arrivals[i]
		arrived += d.gpuMilli()
		if len(c.Fill(d, 1)) == 1 {
			used += d.gpuMilli()
		}
		at := int(math.Round(100 * float64(arrived) / float64(o.milli)))
		sum[at] += 100 * float64(used) / float64(o.milli)
		n[at]++
	}
	for _, cell := range []struct {
		arrival  int
		mean, sd float64
	}{{90, 89.98, 0.05}, {100, 95.23, 0.10}, {110, 95.30, 0.10}} {
		got := sum[cell.arrival] / n[cell.arrival]
		t.Logf("at %d %% arrival %.2f %% are allocated, published %.2f (%.2f)", cell.arrival, got, cell.mean, cell.sd)
		if math.Abs(got-cell.mean) > 3*cell.sd {
			t.Errorf("at %d %% arrival: got %.2f %% allocated, want %.2f within %.2f", cell.arrival, got, cell.mean, 3*cell.sd)
		}
	}
}
