package main

import (
	"fmt"
	"strings"
)

// progressBarWidth is the bar's, in characters.
const progressBarWidth = 30

// startProgress draws a bar on standard error where that is a terminal, and
// nothing elsewhere. done takes the bar away.
func (a *cliApp) startProgress(verb string, total int64) (part func(bytes int64), done func()) {
	if !isTerminal(a.stderr) || total <= 0 {
		return nil, func() {}
	}
	var read int64
	shown := -1
	part = func(bytes int64) {
		read = min(read+bytes, total)
		if percent := int(read * 100 / total); percent != shown {
			shown = percent
			fmt.Fprintf(a.stderr, "\r%s", progressBar(verb, read, total))
		}
	}
	done = func() {
		if shown >= 0 {
			fmt.Fprint(a.stderr, "\r\x1b[K")
		}
	}
	return part, done
}

func progressBar(verb string, read, total int64) string {
	full := int(read * progressBarWidth / total)
	return fmt.Sprintf("%s [%s%s] %3d%% of %s", verb, strings.Repeat("#", full), strings.Repeat(" ", progressBarWidth-full), read*100/total, formatMiB(total))
}
