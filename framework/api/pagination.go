package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
)

// PageRequest selects a part of a list.
type PageRequest struct {
	// Limit is the largest number of entries, up to MaxPageLimit; 0 means all.
	Limit int
	// After is the Next of the previous page, or "" for the first page.
	After string
}

// MaxPageLimit is the largest limit of a page.
const MaxPageLimit = 10_000

func parsePageRequest(v url.Values) (p PageRequest, err error) {
	p.After = v.Get("after")
	if text := v.Get("limit"); text != "" {
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit < 1 || p.Limit > MaxPageLimit {
			return p, NewProblemf(http.StatusBadRequest, "limit %q is no number from 1 to %d: left out it is all", text, MaxPageLimit)
		}
	}
	return p, nil
}

// SortKey has the fields that order an entry in its list. The last one identifies it
// among entries that are equal otherwise; it is "" where there are none.
type SortKey []string

func (k SortKey) orderFields() SortKey { return k[:len(k)-1] }

func (k SortKey) tieBreaker() string { return k[len(k)-1] }

// EncodeCursor returns the text of an entry's position in a list, for a page's Next.
func EncodeCursor(list string, k SortKey) string {
	text, err := json.Marshal(append(SortKey{list}, k...))
	if err != nil {
		panic(err) // texts can be written
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// DecodeCursor reads a Cursor of the list again, of so many texts. Its error is a
// *Problem.
func (p PageRequest) DecodeCursor(list string, texts int) (SortKey, error) {
	var k SortKey
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil || len(k) != texts+1 || k[0] != list {
		return nil, InvalidCursor(p.After)
	}
	return k[1:], nil
}

// InvalidCursor is the problem of an after that is not a cursor of the list.
func InvalidCursor(after string) *Problem {
	return NewProblemf(http.StatusBadRequest, "after %q is no place in the list: it is the next of the page before", after)
}

// CutPage cuts a page of a list that has its entries in the order of their keys,
// of so many texts. What comes or goes between two pages costs no other entry
// its place. Where the very entry has gone after which a page begins, those
// that are equal to it but for the name come again, and none is left out.
func CutPage[T any](name string, texts int, list []T, p PageRequest, key func(list []T, at int) SortKey) (page []T, next string, err error) {
	from := 0
	if p.After != "" {
		last, err := p.DecodeCursor(name, texts)
		if err != nil {
			return nil, "", err
		}
		from = indexAfterCursor(list, last, key)
	}
	rest := list[from:]
	if p.Limit == 0 || len(rest) <= p.Limit {
		return rest, "", nil
	}
	return rest[:p.Limit], EncodeCursor(name, key(list, from+p.Limit-1)), nil
}

// indexAfterCursor returns the index of the first entry after last.
func indexAfterCursor[T any](list []T, last SortKey, key func(list []T, at int) SortKey) int {
	first := sort.Search(len(list), func(i int) bool { return slices.Compare(key(list, i).orderFields(), last.orderFields()) >= 0 })
	for i := first; i < len(list); i++ {
		k := key(list, i)
		if !slices.Equal(k.orderFields(), last.orderFields()) {
			break
		}
		if k.tieBreaker() == last.tieBreaker() {
			return i + 1
		}
	}
	return first
}

// listPage answers a request with a page of what read finds.
func listPage[T any](r *http.Request, name string, texts int, read func(context.Context) ([]T, error), key func([]T, int) SortKey) (page []T, next string, err error) {
	p, err := parsePageRequest(r.URL.Query())
	if err != nil {
		return nil, "", err
	}
	ctx := r.Context()
	if p.After != "" {
		ctx = WithContinuation(ctx)
	}
	list, err := read(ctx)
	if err != nil {
		return nil, "", err
	}
	return CutPage(name, texts, list, p, key)
}

// WithContinuation has a request be one that goes on in a list: what its first
// page was made of is recent enough.
func WithContinuation(ctx context.Context) context.Context {
	return context.WithValue(ctx, continuationKey, true)
}

// IsContinuation reports whether ctx is of a request for a later page.
func IsContinuation(ctx context.Context) bool { return ctx.Value(continuationKey) != nil }
