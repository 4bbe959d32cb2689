package sched

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// FuzzStep feeds a State whatever Mesos and people could say, in any order,
// and holds it to what it promises.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 0, 1, 9, 2, 3, 3, 1, 3, 2, 3, 5, 6, 9})
	f.Add([]byte{0, 0, 1, 30, 2, 77, 4, 1, 5, 20, 3, 6, 7, 0, 5, 60, 0, 0, 2, 14})
	f.Add([]byte{0, 0, 1, 255, 2, 255, 3, 200, 3, 100, 8, 0, 9, 1, 10, 1, 5, 30})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &world{t: t, st: New(Config{MaxAttempts: 3, KeepEnded: 2}, "", nil), now: time.Unix(1_700_000_000, 0), states: map[string]job.State{}}
		for len(data) >= 2 {
			w.apply(data[0], data[1])
			data = data[2:]
		}
	})
}

// world is what the fuzzer's master and people know.
type world struct {
	t      *testing.T
	st     *State
	now    time.Time
	offers int
	ids    []string // all task ids ever seen
	states map[string]job.State
}

func (w *world) apply(kind, arg byte) {
	switch kind % 11 {
	case 0:
		w.step(Subscribed{FrameworkID: "f" + fmt.Sprint(arg%2)})
	case 1:
		w.step(Submit{Spec: fuzzSpec(arg)})
	case 2:
		w.step(Offers{Offers: w.fuzzOffers(arg)})
	case 3, 4:
		w.step(w.fuzzUpdate(arg, kind%11 == 4))
	case 5:
		w.now = w.now.Add(time.Duration(arg) * time.Second)
		w.step(Tick{})
	case 6:
		w.step(Kill{Job: fuzzSpec(arg).Name})
	case 7:
		w.step(Disconnected{})
	case 8:
		w.step(Agents{Agents: []Agent{{ID: "a0", GPUs: int(arg % 5), Types: []string{"V100"}}}})
	case 9:
		if len(w.ids) > 0 {
			w.step(AcceptFailed{TaskIDs: []string{w.ids[int(arg)%len(w.ids)]}})
		}
	case 10:
		w.restart()
	}
}

func fuzzSpec(arg byte) job.Spec {
	s := job.Spec{Name: fmt.Sprintf("j%d", arg%3), Tasks: int(arg/3%3) + 1, Command: []string{"true"}}
	s.Request.GPUs = int(arg / 9 % 4)
	if s.Request.GPUs > 0 && arg > 200 {
		s.Request.Types = gpu.Types{Include: []string{"K80"}}
	}
	s.SetDefaults()
	return s
}

func (w *world) fuzzOffers(arg byte) []Offer {
	var offers []Offer
	for i := range int(arg%3) + 1 {
		w.offers++
		o := Offer{ID: fmt.Sprintf("o%d", w.offers), AgentID: fmt.Sprintf("a%d", (int(arg)+i)%2), Types: []string{"V100"}}
		o.Free = Amount{CPUs: float64(arg / 3 % 8), MemMiB: 2048, DiskMiB: 10}
		o.GPUs = int(arg / 24 % 5)
		if arg%2 == 0 {
			for d := range o.GPUs {
				o.DeviceIDs = append(o.DeviceIDs, fmt.Sprintf("GPU-%s-%d", o.ID, d))
			}
		}
		offers = append(offers, o)
	}
	return offers
}

func (w *world) fuzzUpdate(arg byte, silent bool) Update {
	states := job.States()
	u := Update{TaskID: "stranger", AgentID: "a0", State: states[int(arg)%len(states)], Reconciled: silent}
	if u.State == job.Waiting || u.State == job.Launching {
		u.State = job.Staging // Mesos has no such states
	}
	if n := len(w.ids); n > 0 && arg < 250 {
		u.TaskID = w.ids[int(arg)/len(states)%n]
	}
	if !silent {
		u.UUID = binary.BigEndian.AppendUint16(nil, uint16(arg)+1)
	}
	return u
}

// restart makes a State of what was recorded, as a new process would.
func (w *world) restart() {
	w.st = New(Config{MaxAttempts: 3, KeepEnded: 2}, w.st.FrameworkID(), w.st.Jobs())
}

func (w *world) step(ev Event) {
	w.now = w.now.Add(1)
	connected := w.st.Connected()
	ops := w.st.Step(w.now, ev)
	w.checkMoves(w.st.Drain())
	w.checkOps(ev, ops, connected)
	waiting := 0
	for _, j := range w.st.Jobs() {
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				waiting++
			}
			if n := j.Tasks[i].Attempt; n > 3 {
				w.t.Fatalf("%s is attempt %d of at most 3", j.Tasks[i].ID, n)
			}
		}
	}
	reasons, kept := w.st.Reasons(), 0
	if w.st.waiting != waiting || len(reasons) > waiting {
		w.t.Fatalf("%d tasks wait, counted %d, %d reasons", waiting, w.st.waiting, len(reasons))
	}
	for _, j := range w.st.Jobs() {
		name := j.Spec.Name
		if one := w.st.Reasons(name); one[name] != reasons[name] || len(one) > 1 {
			w.t.Fatalf("%s alone waits for %v, among all for %q", name, one, reasons[name])
		}
		if j.Terminal() {
			kept += len(j.Tasks)
		}
	}
	if kept != w.st.endedTasks {
		w.t.Fatalf("%d tasks have ended, counted %d", kept, w.st.endedTasks)
	}
}

// checkMoves: each task only goes where the table of its life lets it.
func (w *world) checkMoves(c Changes) {
	for _, m := range c.Moves {
		before, known := w.states[m.TaskID]
		if !known {
			w.ids = append(w.ids, m.TaskID)
			before = job.Waiting
		}
		if known && before == m.State || !before.May(m.State) {
			w.t.Fatalf("%s went from %s to %s", m.TaskID, before, m.State)
		}
		w.states[m.TaskID] = m.State
	}
}

func (w *world) checkOps(ev Event, ops []Op, connected bool) {
	_, subscribed := ev.(Subscribed)
	answered := map[string]int{}
	acked := 0
	for _, op := range ops {
		if !connected && !subscribed {
			if _, ok := op.(Acknowledge); !ok {
				if _, ok := op.(KillTask); !ok {
					w.t.Fatalf("%s without a subscription", op)
				}
			}
		}
		switch o := op.(type) {
		case Accept:
			for _, id := range o.OfferIDs {
				answered[id]++
			}
			for _, l := range o.Launches {
				if w.states[l.TaskID] != job.Launching {
					w.t.Fatalf("%s is launched in state %s", l.TaskID, w.states[l.TaskID])
				}
			}
		case Decline:
			for _, d := range o.Offers {
				answered[d.OfferID]++
			}
		case Acknowledge:
			acked++
			if len(o.UUID) == 0 {
				w.t.Fatalf("acknowledged %s without uuid", o.TaskID)
			}
		}
	}
	if u, ok := ev.(Update); ok && (acked == 1) != (len(u.UUID) > 0) {
		w.t.Fatalf("update %+v was acknowledged %d times", u, acked)
	}
	if o, ok := ev.(Offers); ok && connected {
		for _, offer := range o.Offers {
			if answered[offer.ID] != 1 {
				w.t.Fatalf("offer %s was answered %d times", offer.ID, answered[offer.ID])
			}
		}
	}
}
