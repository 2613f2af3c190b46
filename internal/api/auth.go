package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
)

// Role is what a key may do. Each role may do what the ones before it may.
type Role string

// The roles, in ascending order.
const (
	RoleProducer Role = "producer" // send, and look up deliveries
	RoleOperator Role = "operator" // manage the tenant's endpoints
	RoleAdmin    Role = "admin"    // of every tenant
)

// rank orders the roles; 0 is none.
func (r Role) rank() int {
	switch r {
	case RoleProducer:
		return 1
	case RoleOperator:
		return 2
	case RoleAdmin:
		return 3
	}
	return 0
}

// Key is one bearer key of the API, as configured: never the key itself.
type Key struct {
	Name   string // for logs; unique
	SHA256 string // of the key's bytes, in hex
	Tenant string // whose endpoints; must be empty for admins, who see all
	Role   Role
}

// minTokenBytes is the length of the shortest key that is even looked at, and maxTokenBytes of the longest.
const (
	minTokenBytes = 16
	maxTokenBytes = 512
)

// ErrNoKeys refuses an API that is open to others than this machine's users.
var ErrNoKeys = errors.New("api: without keys only a loopback address may be listened on")

// principal is who makes a request.
type principal struct {
	name  string
	scope string // a tenant, or empty: all
	role  Role
	gate  *gate // of the tenant; the admins share one
}

// tenant is what the principal's own things belong to.
func (p principal) tenant() string {
	if p.scope == "" {
		return endpoint.DefaultTenant
	}
	return p.scope
}

// keyring holds the configured keys.
type keyring struct {
	keys []hashedKey // empty: everybody is an admin, from loopback
}

type hashedKey struct {
	sum [sha256.Size]byte
	who principal
}

// newKeyring checks all keys and reports all problems at once.
func newKeyring(keys []Key, addr string) (*keyring, error) {
	if len(keys) == 0 {
		if !isLoopback(addr) {
			return nil, ErrNoKeys
		}
		return &keyring{}, nil
	}
	var problems []error
	ring := &keyring{}
	names, sums := map[string]bool{}, map[[sha256.Size]byte]string{}
	for i, k := range keys {
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("api key %d (%q): "+format, append([]any{i + 1, k.Name}, args...)...))
		}
		h := hashedKey{who: principal{name: k.Name, scope: k.Tenant, role: k.Role}}
		raw, err := hex.DecodeString(strings.TrimSpace(k.SHA256))
		switch {
		case k.Name == "":
			bad("has no name")
		case names[k.Name]:
			bad("the name is there twice")
		}
		names[k.Name] = true
		if err != nil || len(raw) != sha256.Size {
			bad("sha256 must be 64 hex digits, the SHA-256 of the key")
		} else {
			copy(h.sum[:], raw)
			if other, ok := sums[h.sum]; ok {
				bad("has the same hash as %q", other)
			}
			sums[h.sum] = k.Name
		}
		switch {
		case k.Role.rank() == 0:
			bad("role must be %s, %s or %s", RoleProducer, RoleOperator, RoleAdmin)
		case k.Role == RoleAdmin && k.Tenant != "":
			bad("an admin belongs to no tenant")
		case k.Role != RoleAdmin && !endpoint.ValidTenant(k.Tenant):
			bad("tenant must be 1 to 64 of A-Z a-z 0-9 . _ -")
		}
		ring.keys = append(ring.keys, h)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return ring, nil
}

// tenants lists the scopes of all callers, each once; an admin's is empty.
func (k *keyring) tenants() []string {
	if len(k.keys) == 0 {
		return []string{""}
	}
	seen := map[string]bool{}
	var all []string
	for _, key := range k.keys {
		if !seen[key.who.scope] {
			seen[key.who.scope] = true
			all = append(all, key.who.scope)
		}
	}
	return all
}

// identify says who makes a request, or a *Problem. It compares with every key and in constant time, so that the
// time it takes tells nothing.
func (k *keyring) identify(r *http.Request) (principal, error) {
	if len(k.keys) == 0 {
		if !isLoopback(r.Host) {
			return principal{}, problem(http.StatusForbidden, CodeForbidden, "Forbidden",
				"Without keys this API answers only requests to a loopback name or address.")
		}
		return principal{name: "local", role: RoleAdmin}, nil
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "Bearer") || len(token) < minTokenBytes || len(token) > maxTokenBytes {
		return principal{}, unauthorized()
	}
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range k.keys {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], k.keys[i].sum[:]), i, found)
	}
	if found < 0 {
		return principal{}, unauthorized()
	}
	return k.keys[found].who, nil
}

func unauthorized() *Problem {
	return problem(http.StatusUnauthorized, CodeUnauthorized, "Unauthorized",
		"A valid key is needed: Authorization: Bearer KEY.")
}

// isLoopback says whether host or host:port names this machine and nothing else.
func isLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
