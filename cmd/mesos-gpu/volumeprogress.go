package main

import (
	"fmt"
	"strings"
)

// barWidth is the bar's, in characters.
const barWidth = 30

// progress draws a bar on standard error where that is a terminal, and
// nothing elsewhere. done takes the bar away.
func (a *app) progress(verb string, total int64) (part func(bytes int64), done func()) {
	if !terminal(a.err) || total <= 0 {
		return nil, func() {}
	}
	var read int64
	shown := -1
	part = func(bytes int64) {
		read = min(read+bytes, total)
		if percent := int(read * 100 / total); percent != shown {
			shown = percent
			fmt.Fprintf(a.err, "\r%s", bar(verb, read, total))
		}
	}
	done = func() {
		if shown >= 0 {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
	}
	return part, done
}

func bar(verb string, read, total int64) string {
	full := int(read * barWidth / total)
	return fmt.Sprintf("%s [%s%s] %3d%% of %s", verb, strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), read*100/total, mib(total))
}
