package cli

import (
	"fmt"
	"mesos-gpu/internal/term"
	"strings"
	"sync"
)

// progressBarWidth is the width of the bar, in characters.
const progressBarWidth = 30

// StartProgress draws a progress bar on standard error if that is a terminal, and
// nothing otherwise. part adds to the bytes read; it is nil without a bar. done
// removes the bar.
func (a *App) StartProgress(verb string, total int64) (part func(bytes int64), done func()) {
	if !term.IsTerminal(a.Stderr) || total <= 0 {
		return nil, func() {}
	}
	var read int64
	shown := -1
	part = func(bytes int64) {
		read = min(read+bytes, total)
		if percent := int(read * 100 / total); percent != shown {
			shown = percent
			fmt.Fprintf(a.Stderr, "\r%s", progressBar(verb, read, total))
		}
	}
	done = func() {
		if shown >= 0 {
			fmt.Fprint(a.Stderr, "\r\x1b[K")
		}
	}
	return part, done
}

func progressBar(verb string, read, total int64) string {
	full := int(read * progressBarWidth / total)
	return fmt.Sprintf("%s [%s%s] %3d%% of %s", verb, strings.Repeat("#", full), strings.Repeat(" ", progressBarWidth-full), read*100/total, term.FormatMiB(total))
}

// StartCountBar draws a bar that counts finished items, if standard error is a
// terminal. one is safe for concurrent use; call done after the last call of one.
func (a *App) StartCountBar(doing, what string, all int64) (one, done func()) {
	if !term.IsTerminal(a.Stderr) || all == 0 {
		return func() {}, func() {}
	}
	var mu sync.Mutex
	made, shown := int64(0), int64(-1)
	show := func() {
		if thousandth := made * 1000 / all; thousandth != shown {
			shown = thousandth
			full := int(made * progressBarWidth / all)
			fmt.Fprintf(a.Stderr, "\r%s [%s%s] %d of %d %s", doing, strings.Repeat("#", full), strings.Repeat(" ", progressBarWidth-full), made, all, what)
		}
	}
	show()
	one = func() {
		mu.Lock()
		defer mu.Unlock()
		made++
		show()
	}
	return one, func() { fmt.Fprint(a.Stderr, "\r\x1b[K") }
}
