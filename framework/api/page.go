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

// Page says which part of a list is asked for.
type Page struct {
	// Limit bounds how many, up to MaxLimit; 0 is all.
	Limit int
	// After is the Next of the page before, "" the list's beginning.
	After string
}

// MaxLimit bounds a page: who wants all names no limit, or goes through pages.
const MaxLimit = 10_000

func parsePage(v url.Values) (p Page, err error) {
	p.After = v.Get("after")
	if text := v.Get("limit"); text != "" {
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit < 1 || p.Limit > MaxLimit {
			return p, Problemf(http.StatusBadRequest, "limit %q is no number from 1 to %d: left out it is all", text, MaxLimit)
		}
	}
	return p, nil
}

// Key has what orders an entry in its list, and at last what names it among
// those that are equal in that: "" where none are.
type Key []string

func (k Key) order() Key { return k[:len(k)-1] }

func (k Key) name() string { return k[len(k)-1] }

// Cursor is the text of an entry's place in that list, for a page's Next.
func Cursor(list string, k Key) string {
	text, err := json.Marshal(append(Key{list}, k...))
	if err != nil {
		panic(err) // texts can be written
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// Place reads a Cursor of the list again, of so many texts. Its error is a
// *Problem.
func (p Page) Place(list string, texts int) (Key, error) {
	var k Key
	text, err := base64.RawURLEncoding.DecodeString(p.After)
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err != nil || len(k) != texts+1 || k[0] != list {
		return nil, NoPlace(p.After)
	}
	return k[1:], nil
}

// NoPlace refuses an after.
func NoPlace(after string) *Problem {
	return Problemf(http.StatusBadRequest, "after %q is no place in the list: it is the next of the page before", after)
}

// PageOf cuts a page of a list that has its entries in the order of their keys,
// of so many texts. What comes or goes between two pages costs no other entry
// its place. Where the very entry has gone after which a page begins, those
// that are equal to it but for the name come again, and none is left out.
func PageOf[T any](name string, texts int, list []T, p Page, key func(list []T, at int) Key) (page []T, next string, err error) {
	from := 0
	if p.After != "" {
		last, err := p.Place(name, texts)
		if err != nil {
			return nil, "", err
		}
		from = following(list, last, key)
	}
	rest := list[from:]
	if p.Limit == 0 || len(rest) <= p.Limit {
		return rest, "", nil
	}
	return rest[:p.Limit], Cursor(name, key(list, from+p.Limit-1)), nil
}

// following is the index of the first entry after that place.
func following[T any](list []T, last Key, key func(list []T, at int) Key) int {
	first := sort.Search(len(list), func(i int) bool { return slices.Compare(key(list, i).order(), last.order()) >= 0 })
	for i := first; i < len(list); i++ {
		k := key(list, i)
		if !slices.Equal(k.order(), last.order()) {
			break
		}
		if k.name() == last.name() {
			return i + 1
		}
	}
	return first
}

// paged answers a request with a page of what read finds.
func paged[T any](r *http.Request, name string, texts int, read func(context.Context) ([]T, error), key func([]T, int) Key) (page []T, next string, err error) {
	p, err := parsePage(r.URL.Query())
	if err != nil {
		return nil, "", err
	}
	ctx := r.Context()
	if p.After != "" {
		ctx = WithContinued(ctx)
	}
	list, err := read(ctx)
	if err != nil {
		return nil, "", err
	}
	return PageOf(name, texts, list, p, key)
}

// WithContinued has a request be one that goes on in a list: what its first
// page was made of a moment ago will do.
func WithContinued(ctx context.Context) context.Context {
	return context.WithValue(ctx, pageKey, true)
}

// Continues reports whether it is one.
func Continues(ctx context.Context) bool { return ctx.Value(pageKey) != nil }
