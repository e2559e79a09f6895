// Package graphiql serves the GraphQL explorer from files inside the program:
// the page loads nothing from any other host. The files under assets are the
// prebuilt browser bundles of GraphiQL 2.4.7, React and React DOM 18.3.1; their
// licences lie beside them.
package graphiql

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed assets
var assets embed.FS

// contentPolicy lets the page load its own files only. The editor sets styles
// on elements, and its fonts are inside its stylesheet.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the explorer at / and its files beside it.
func Handler() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		return http.NotFoundHandler() // the folder is embedded above
	}
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Security-Policy", contentPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		server.ServeHTTP(w, r)
	})
}
