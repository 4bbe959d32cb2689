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
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"mesos-gpu/internal/testing/testneeds"
)

// browserTab is a page in a headless Chromium. Errors in the browser's console fail the test.
type browserTab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	mistakes []string
}

// waitTimeout limits how long a page may take to show something. It is long, because other tests
// run on the same machine.
const waitTimeout = 2 * time.Minute

// openTab loads the page at url.
func openTab(t testing.TB, url string) *browserTab {
	t.Helper()
	p := openBlankTab(t)
	p.runActions(chromedp.Navigate(url))
	return p
}

// browser is the Chromium that all tests share, because its start takes a second of
// processor time. TestMain ends it.
var browser struct {
	mu  sync.Mutex
	ctx context.Context // nil until it starts
	end func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.ctx != nil {
		browser.end()
	}
	os.Exit(code)
}

// sharedBrowser starts the browser if it does not run.
func sharedBrowser(t testing.TB) context.Context {
	t.Helper()
	program := testneeds.RequireProgram(t, "chromium-headless-shell", "chromium-headless-shell") // a tab takes half the processor time of one in chromium
	browser.mu.Lock()
	defer browser.mu.Unlock()
	if browser.ctx != nil && browser.ctx.Err() == nil {
		return browser.ctx
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.WindowSize(1280, 900),
		// A tab takes a third less processor time without experiments, updates and a renderer in reserve, and with
		// one thread for JavaScript.
		chromedp.Flag("disable-field-trial-config", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("js-flags", "--single-threaded"),
		chromedp.Flag("disable-features", "site-per-process,Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess,"+
			"BackForwardCache")) // pages that were left would keep their event streams, and a page gets six connections
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox does not work as root
	}
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocated)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	browser.ctx, browser.end = ctx, func() { end(); release() }
	return ctx
}

// loadPage loads the page at url in place of the present one.
func (p *browserTab) loadPage(url string) {
	p.t.Helper()
	p.runActions(chromedp.Navigate("about:blank"), chromedp.Navigate(url)) // the same address with another fragment is no new page
}

// openBlankTab opens an empty page of 1280 by 900 pixels with storage and a cache of its own.
func openBlankTab(t testing.TB) *browserTab {
	t.Helper()
	ctx, end := chromedp.NewContext(sharedBrowser(t), chromedp.WithNewBrowserContext())
	p := &browserTab{t: t, ctx: ctx}
	t.Cleanup(func() {
		end()
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

// recordEvent records exceptions, errors and violations of the content security policy. It
// ignores unsuccessful responses, which are not errors of the page.
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
	if chromedp.FromContext(ctx).Target != nil { // otherwise there is no tab yet, and this would end the browser
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, waitTimeout)
		defer cancel()
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// evalJS returns the value of a JavaScript expression in the page.
func evalJS[T any](p *browserTab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitTimeout)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	for err != nil && strings.Contains(err.Error(), "Inspected target navigated") { // to the page that is expected, perhaps
		v, err = chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	}
	if err != nil {
		p.t.Fatalf("%s: %v; the page shows:\n%s", shorten(expression), err, p.pageText())
	}
	return v
}

// awaitTrue waits until the expression is true. An expression that throws, for example because
// an element does not exist yet, is not true.
func (p *browserTab) awaitTrue(expression string) {
	p.t.Helper()
	evalJS[bool](p, `new Promise((done) => {
		const look = () => { try { if (!(`+expression+`)) return; } catch { return; } seen.disconnect(); done(true); };
		const seen = new MutationObserver(look);
		seen.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
		look();
	})`)
}

// awaitText waits until the page contains the text.
func (p *browserTab) awaitText(text string) {
	p.t.Helper()
	p.awaitTrue(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// pageText returns the visible text of the page.
func (p *browserTab) pageText() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

func shorten(expression string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(expression), "\n")
	return line
}

func (p *browserTab) setSize(width, height int64) {
	p.t.Helper()
	p.runActions(chromedp.EmulateViewport(width, height))
}

// runBeforePage makes the next pages run a script before their own.
func (p *browserTab) runBeforePage(script string) {
	p.t.Helper()
	p.runActions(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// setColorScheme selects the light or the dark color scheme.
func (p *browserTab) setColorScheme(name string) {
	p.t.Helper()
	p.runActions(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// saveScreenshot saves what the window shows as an artifact of the test.
func (p *browserTab) saveScreenshot(name string) {
	p.t.Helper()
	p.savePicture(name, false)
}

// savePage saves the whole page as an artifact of the test.
func (p *browserTab) savePage(name string) {
	p.t.Helper()
	p.savePicture(name, true)
}

func (p *browserTab) savePicture(name string, beyondWindow bool) {
	p.t.Helper()
	// PNG encoders that save space take most of the time of a test of appearance.
	fast := true
	p.runActions(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		picture, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &beyondWindow, OptimizeForSpeed: &fast})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(p.t.ArtifactDir(), p.t.Name()+"-"+name+".png"), picture.Data, 0o600)
	}))
}
