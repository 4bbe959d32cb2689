package web_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"mesos-gpu/internal/testneeds"
)

// browserTab is a page in a headless Chromium. The test fails if anything in it goes
// wrong that a person would find in the browser's console.
type browserTab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	mistakes []string
}

// patience is how long a page may take to show something: the browser shares
// the machine with other tests.
const patience = 2 * time.Minute

// openTab starts a browser that shows the page at url.
func openTab(t testing.TB, url string) *browserTab {
	t.Helper()
	p := blankTab(t)
	p.runActions(chromedp.Navigate(url))
	return p
}

// blankTab starts a browser of 1280 by 900 that shows nothing yet.
func blankTab(t testing.TB) *browserTab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(testneeds.RequireProgram(t, "chromium", "chromium")), chromedp.WindowSize(1280, 900))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's own does not serve root
	}
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocated)
	p := &browserTab{t: t, ctx: ctx}
	t.Cleanup(func() {
		end()
		release()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, m := range p.mistakes {
			t.Errorf("in the browser's console: %s", m)
		}
	})
	p.runActions()
	if err := chromedp.Listen(ctx, p.recordEvent); err != nil {
		t.Fatal(err)
	}
	p.setSize(1280, 900)
	return p
}

// recordEvent keeps exceptions, errors and violations of the page's policy. That an
// answer was another than 200 is no mistake of the page's.
func (p *browserTab) recordEvent(ev any) {
	text := ""
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("%s %+v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprintf("console.%s", ev.Type)
	case *log.EventEntryAdded:
		if ev.Entry.Source != log.EntrySourceNetwork {
			text = fmt.Sprintf("%s %s: %s", ev.Entry.Source, ev.Entry.Level, ev.Entry.Text)
		}
	}
	if text != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mistakes = append(p.mistakes, text)
	}
}

func (p *browserTab) runActions(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx := p.ctx
	if chromedp.FromContext(ctx).Target != nil { // else it would end with the browser
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// evalJS returns the value of an expression in the page.
func evalJS[T any](p *browserTab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v; the page shows:\n%s", shortened(expression), err, p.pageText())
	}
	return v
}

// awaitTrue waits until a change of the page makes the expression true. One that
// fails, for what it names is not there yet, is not true.
func (p *browserTab) awaitTrue(expression string) {
	p.t.Helper()
	evalJS[bool](p, `new Promise((done) => {
		const look = () => { try { if (!(`+expression+`)) return; } catch { return; } seen.disconnect(); done(true); };
		const seen = new MutationObserver(look);
		seen.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
		look();
	})`)
}

// awaitText waits until the page's text has that in it.
func (p *browserTab) awaitText(text string) {
	p.t.Helper()
	p.awaitTrue(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// pageText is all that can be read on the page.
func (p *browserTab) pageText() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

func shortened(expression string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(expression), "\n")
	return line
}

func (p *browserTab) setSize(width, height int64) {
	p.t.Helper()
	p.runActions(chromedp.EmulateViewport(width, height))
}

// setColorScheme is light or dark.
func (p *browserTab) setColorScheme(name string) {
	p.t.Helper()
	p.runActions(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// saveScreenshot writes what the page looks like among the test's artifacts.
func (p *browserTab) saveScreenshot(name string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.t.ArtifactDir(), p.t.Name()+"-"+name+".png"), picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
