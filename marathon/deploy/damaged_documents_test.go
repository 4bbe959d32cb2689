package deploy

import (
	"bytes"
	"maps"
	"strings"
	"testing"
)

// Inconsistent documents are rejected with an error that names the document.
func TestDamagedDocuments(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/web n=2")
	s.Step(nil)
	d := putApps(t, s, startTime(), "/other n=2")
	s.Step(nil)
	whole := takeDocuments(s)
	if _, err := loadState(whole); err != nil {
		t.Fatal(err)
	}
	key := deploymentKey + d.ID
	replace := func(in, old, to string) func(map[string][]byte) {
		return func(m map[string][]byte) {
			if !bytes.Contains(m[in], []byte(old)) {
				t.Fatalf("%s has no %s: %s", in, old, m[in])
			}
			m[in] = bytes.ReplaceAll(m[in], []byte(old), []byte(to))
		}
	}
	for name, c := range map[string]struct {
		damage func(map[string][]byte)
		want   string
	}{
		"cut":           {func(m map[string][]byte) { m[key] = m[key][:20] }, "read document " + key},
		"no app":        {func(m map[string][]byte) { delete(m, appKey+"/other") }, "there is no app /other"},
		"another's app": {replace(appKey+"/other", `"/other"`, `"/web"`), `it holds the app "/web"`},
		"no versions":   {func(m map[string][]byte) { m[appKey+"/other"] = []byte(`{}`) }, "with 0 versions is no app"},
		"no version": {replace(key, `"from":{"/other":""}`, `"from":{"/other":"2020-01-01T00:00:00.000Z"}`),
			"there is no version 2020-01-01T00:00:00.000Z of /other"},
		"no origin":      {replace(key, `"from":{"/other":""}`, `"from":{}`), "from has no entry for /other"},
		"nothing to do":  {replace(key, `"from":{"/other":""}`, `"from":{"/other":"","/web":""}`), "it does nothing to /web"},
		"steps too many": {replace(key, `"current":2`, `"current":3`), "at step 3 of 2"},
		"no time":        {replace(appKey+"/other", `"lastConfigChangeAt":"2023`, `"lastConfigChangeAt":"once`), "is no version"},
		"two at once": {func(m map[string][]byte) {
			m[deploymentKey+"x"] = bytes.ReplaceAll(m[key], []byte(d.ID), []byte("x"))
		}, "/other is changed by"},
		"no group": {func(m map[string][]byte) { m[groupKey+"/g"] = []byte(`null`) }, "read document marathon/group/g"},
	} {
		t.Run(name, func(t *testing.T) {
			documents := maps.Clone(whole)
			c.damage(documents)
			if _, err := loadState(documents); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := loadState(map[string][]byte{"other/document": []byte("x")}); err != nil {
		t.Errorf("the documents of others: %v", err)
	}
}
