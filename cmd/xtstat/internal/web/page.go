package web

import (
	_ "embed"
	"net/http"
)

// The page.
var (
	//go:embed page/page.html
	pageHTML []byte
	//go:embed page/page.js
	pageJS []byte
	//go:embed page/charts.js
	chartsJS []byte
	//go:embed page/page.css
	pageCSS []byte
	//go:embed page/icon.svg
	iconSVG []byte
)

// file is a part of the page.
type file struct {
	kind string
	text []byte
}

// files are the parts of the page by their paths.
var files = map[string]file{
	"/{$}":       {"text/html; charset=utf-8", pageHTML},
	"/page.js":   {"text/javascript; charset=utf-8", pageJS},
	"/charts.js": {"text/javascript; charset=utf-8", chartsJS},
	"/page.css":  {"text/css; charset=utf-8", pageCSS},
	"/icon.svg":  {"image/svg+xml", iconSVG},
}

func (f file) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", f.kind)
	_, _ = w.Write(f.text) // a browser that is gone needs none
}
