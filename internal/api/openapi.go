package api

import (
	_ "embed"
	"net/http"
)

// The OpenAPI 3.1 document of the API: written in YAML, and the same as JSON, which a test keeps equal.
var (
	//go:embed openapi.yaml
	openAPIYAML []byte
	//go:embed openapi.json
	openAPIJSON []byte
)

// OpenAPI is the document, as YAML. The caller may change the bytes.
func OpenAPI() []byte { return append([]byte(nil), openAPIYAML...) }

// serveOpenAPI serves the document to everybody: it holds nothing but what is public anyhow.
func serveOpenAPI(mux *http.ServeMux) {
	for path, doc := range map[string]struct {
		kind string
		text []byte
	}{
		"/openapi.yaml": {"application/yaml", openAPIYAML},
		"/openapi.json": {"application/json", openAPIJSON},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", doc.kind)
			w.Header().Set("Cache-Control", "public, max-age=300")
			_, _ = w.Write(doc.text) // the caller may be gone
		})
	}
}
