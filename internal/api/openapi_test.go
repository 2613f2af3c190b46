package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

// openAPI is somebody else's validator over our document; made once, as it compiles every schema. Strict: what the
// document does not declare in an answer is an error too. Whether a key is there is the handlers' business.
var openAPI = sync.OnceValues(func() (validator.Validator, error) {
	return validatorOf(
		config.WithStrictMode(), config.WithStrictIgnorePaths("$.body.headers.**", "$.body.endpoints[*].headers.**"))
})

// openAPIRequests is one for requests, where a payload may be any JSON; that no unknown field is taken, the schema says.
var openAPIRequests = sync.OnceValues(func() (validator.Validator, error) { return validatorOf() })

func validatorOf(more ...config.Option) (validator.Validator, error) {
	doc, err := libopenapi.NewDocument(api.OpenAPI())
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(doc, append(more, config.WithFormatAssertions(), config.WithoutSecurityValidation(),
		config.WithStrictIgnoredHeadersExtra("cache-control", "date", "content-length", "content-type"))...)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return v, nil
}

// given is one answer that was given: the operation, the status, and the problem's type if it is one.
type given struct {
	op      string // "POST /v1/deliveries"
	status  string
	problem string // a URN, or empty
}

// held holds every exchange of a test to the OpenAPI document: the answer, and of those that succeed the request.
func (n *node) held(next http.Handler) http.Handler {
	v, err := openAPI()
	require.NoError(n.t, err)
	requests, err := openAPIRequests()
	require.NoError(n.t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked bytes.Buffer
		body := r.Body
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(body, &asked), body}
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(rec, r)
		r.Body = body // net/http looks at its type to know what is left unread
		if !strings.Contains(r.Pattern, " /v1/") {
			return // no operation: 404 or 405, and the document itself
		}
		resp := &http.Response{
			StatusCode: rec.status, Header: w.Header().Clone(), Body: io.NopCloser(bytes.NewReader(rec.body.Bytes())), Request: r,
		}
		request := r.Clone(r.Context())
		request.Body = io.NopCloser(bytes.NewReader(asked.Bytes()))
		if ok, errs := v.ValidateHttpResponse(request, resp); !ok {
			for _, e := range errs {
				n.t.Errorf("%s is answered %d %s, and the document says: %v", r.Pattern, rec.status, rec.body.String(), e)
			}
		}
		var floats any // what the validator cannot read is not its business
		if rec.status < 300 && (asked.Len() == 0 || json.Unmarshal(asked.Bytes(), &floats) == nil) {
			request.Body = io.NopCloser(bytes.NewReader(asked.Bytes()))
			if ok, errs := requests.ValidateHttpRequest(request); !ok {
				for _, e := range errs {
					n.t.Errorf("%s takes %s, and the document says: %v", r.Pattern, asked.String(), e)
				}
			}
		}
		g := given{op: r.Pattern, status: fmt.Sprint(rec.status)}
		if rec.status >= 400 {
			var p struct{ Type string }
			if err := json.Unmarshal(rec.body.Bytes(), &p); err != nil {
				n.t.Errorf("%s: %v", rec.body.String(), err)
			}
			g.problem = p.Type
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.given[g] = true
	})
}

// recorder keeps what is answered.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// document is the parts of the OpenAPI document that these tests walk.
type document struct {
	Paths      map[string]map[string]yaml.Node
	Components struct {
		Responses map[string]response
	}
}

type response struct {
	Ref     string `yaml:"$ref"`
	Content map[string]struct {
		Schema struct {
			AllOf []struct {
				Properties struct {
					Type struct {
						Const string
						Enum  []string
					}
				}
			} `yaml:"allOf"`
		}
	}
}

func readDocument(t *testing.T) document {
	t.Helper()
	var d document
	require.NoError(t, yaml.Unmarshal(api.OpenAPI(), &d))
	return d
}

// answers is everything that the document says may be answered.
func (d document) answers(t *testing.T) map[given]bool {
	t.Helper()
	all := map[given]bool{}
	for path, item := range d.Paths {
		for method, node := range item {
			if method == "parameters" {
				continue
			}
			var op struct{ Responses map[string]response }
			require.NoError(t, node.Decode(&op))
			for status, resp := range op.Responses {
				if resp.Ref != "" {
					resp = d.Components.Responses[strings.TrimPrefix(resp.Ref, "#/components/responses/")]
				}
				g := given{op: strings.ToUpper(method) + " " + path, status: status}
				if status < "400" {
					all[g] = true
					continue
				}
				for _, part := range resp.Content["application/problem+json"].Schema.AllOf {
					for _, urn := range append(part.Properties.Type.Enum, part.Properties.Type.Const) {
						if urn != "" {
							g.problem = urn
							all[g] = true
						}
					}
				}
			}
		}
	}
	return all
}

func TestOpenAPI_IsValid(t *testing.T) {
	t.Parallel()
	v, err := openAPI()
	require.NoError(t, err)
	ok, errs := v.ValidateDocument()
	require.True(t, ok, "%v", errs)
}

// Each route is an operation and each operation a route, each code of problems is documented, and none is made up.
func TestOpenAPI_ListsWhatThereIs(t *testing.T) {
	t.Parallel()
	routes, operations := map[string]bool{}, map[string]bool{}
	for _, r := range api.Routes() {
		routes[r.Method+" "+r.Path] = true
	}
	codes, documented := map[string]bool{}, map[string]bool{}
	for _, code := range api.Codes() {
		codes["urn:barnabas:problem:"+code] = true
	}
	documented["urn:barnabas:problem:"+api.CodeMethodNotAllowed] = true // of no operation; the description tells
	for g := range readDocument(t).answers(t) {
		operations[g.op] = true
		if g.problem != "" {
			documented[g.problem] = true
		}
	}
	require.Equal(t, routes, operations)
	require.Equal(t, codes, documented)
	for _, code := range []string{api.CodeMethodNotAllowed, api.CodeNotFound} {
		require.Contains(t, string(api.OpenAPI()), "(`urn:barnabas:problem:"+code+"`)")
	}
}

// The document is there for everybody, in both forms.
func TestOpenAPI_IsServed(t *testing.T) {
	t.Parallel()
	n := serve(t, fakes(&fakeLog{}, acme()))
	for path, kind := range map[string]string{"/openapi.yaml": "application/yaml", "/openapi.json": "application/json"} {
		w := httptest.NewRecorder()
		n.api.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, kind, w.Header().Get("Content-Type"))
		var doc, want map[string]any
		require.NoError(t, yaml.Unmarshal(w.Body.Bytes(), &doc))
		require.NoError(t, yaml.Unmarshal(api.OpenAPI(), &want))
		require.Equal(t, want, doc)
	}
	require.Equal(t, http.StatusUnauthorized, n.call(http.MethodPost, "/openapi.json", "", "").status)
}
