package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
)

// TestEachReadsAllPages checks that pages are read one at a time, only as needed, with the same
// query.
func TestEachReadsAllPages(t *testing.T) {
	const all = 2*entriesPerPage + 3
	var asked []string
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, r.URL.Path+" "+q.Get("job")+" "+q.Get("after"))
		from, _ := strconv.Atoi(q.Get("after"))
		limit, _ := strconv.Atoi(q.Get("limit"))
		if limit != entriesPerPage {
			t.Errorf("limit %q, want %d", q.Get("limit"), entriesPerPage)
		}
		var entries []string
		for i := from; i < min(from+limit, all); i++ {
			entries = append(entries, fmt.Sprintf(`{"task":"%d","uuid":"%d"}`, i, i))
		}
		next := ""
		if from+limit < all {
			next = strconv.Itoa(from + limit)
		}
		list := strings.Join(entries, ",")
		fmt.Fprintf(w, `{"tasks":[%s],"gpus":[%s],"next":%q}`, list, list, next)
	})
	tasks, err := c.ListUsage(context.Background(), "train")
	if err != nil || len(tasks) != all || tasks[all-1].Task != strconv.Itoa(all-1) {
		t.Errorf("got %d tasks, %v", len(tasks), err)
	}
	if want := []string{"/v1/usage train ", "/v1/usage train 5000", "/v1/usage train 10000"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	asked = nil
	for g, err := range c.EachGPU(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if g.UUID == strconv.Itoa(entriesPerPage) {
			break
		}
	}
	if want := []string{"/v1/gpus  ", "/v1/gpus  5000"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestEachStopsOnError checks that entries before an error are returned, and that a list is not
// returned partially.
func TestEachStopsOnError(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("after") != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"title":"Bad Request","status":400,"detail":"no place"}`)
			return
		}
		fmt.Fprint(w, `{"agents":[{"id":"a"}],"next":"x"}`)
	})
	var got []string
	for a, err := range c.EachAgent(context.Background()) {
		got = append(got, fmt.Sprint(a.ID, err))
	}
	if want := []string{"a<nil>", "no place"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if list, err := c.ListAgents(context.Background()); err == nil || list != nil {
		t.Errorf("got %+v, %v", list, err)
	}
	list, err := c.ListJobsPage(context.Background(), api.JobQuery{PageRequest: api.PageRequest{Limit: 1, After: "x"}})
	if err == nil || list.Next != "" {
		t.Errorf("got %+v, %v", list, err)
	}
}

// TestUnpagedLists checks a scheduler of an earlier version, which returns the whole list.
func TestUnpagedLists(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("limit") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"title":"Bad Request","status":400,"detail":"GET /v1/gpus has no parameter \"limit\""}`)
			return
		}
		fmt.Fprint(w, `{"gpus":[{"uuid":"GPU-1"},{"uuid":"GPU-2"}]}`)
	})
	gpus, err := c.ListGPUs(context.Background())
	if err != nil || len(gpus) != 2 {
		t.Errorf("got %+v, %v", gpus, err)
	}
}
