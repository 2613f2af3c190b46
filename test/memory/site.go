package memory

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// site is the installation: configuration, addresses, endpoints.
type site struct {
	dir       string
	config    string // path
	token     string // of an admin
	group     string
	catalogue topics.Catalogue
	api       string // address
	metrics   string // address
	dead      []string
	near      []string // healthy, in the dead ones' partitions
	apart     []string // healthy, in partitions of their own
}

// newSite writes the configuration: the defaults, but for what a loopback needs.
func newSite(dir, broker string, o *Options) (*site, error) {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	s := &site{
		dir: dir, config: filepath.Join(dir, "barnabas.yaml"), token: rand.Text(), group: "memory",
		catalogue: topics.Catalogue{Prefix: "memory.", Partitions: o.Partitions, Tiers: topics.DefaultCatalogue().Tiers},
	}
	taken := map[int]bool{}
	for _, addr := range []*string{&s.api, &s.metrics} {
		var err error
		if *addr, err = process.FreeAddr(taken); err != nil {
			return nil, err
		}
	}
	config := fmt.Sprintf(`kafka: {brokers: [%q]}
topics: {prefix: %q, partitions: %d, replication: 1, create: true}
processor: {group: %s}
egress: {allow_loopback: true, allow_http: true}
api: {listen: %q, keys: ["memory:admin::%x"]}
metrics: {listen: %q, pprof: true}
endpoints: {secret_key: %q}
`, broker, s.catalogue.Prefix, o.Partitions, s.group, s.api, sha256.Sum256([]byte(s.token)), s.metrics,
		base64.StdEncoding.EncodeToString(key[:]))
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	first := int32(o.Partitions - o.apart()) // of those that are kept free
	s.dead = s.ids("dead", o.Endpoints, func(p int32) bool { return p < first })
	s.near = s.ids("near", o.Healthy, func(p int32) bool { return p < first })
	s.apart = s.ids("apart", o.Healthy, func(p int32) bool { return p >= first })
	return s, nil
}

// ids names n endpoints that lie in the partitions that are wanted.
func (s *site) ids(name string, n int, wanted func(partition int32) bool) []string {
	var ids []string
	for i := 0; len(ids) < n; i++ {
		if id := fmt.Sprintf("%s-%05d", name, i); wanted(s.partition(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *site) partition(id string) int32 { return topics.Partition(id, s.catalogue.Partitions) }

// start runs the binary with the given roles.
func (s *site) start(binary, name, roles string, set []string) (*process.Process, error) {
	args := []string{"serve", "--config", s.config, "--roles", roles}
	for _, one := range set {
		args = append(args, "--set", one)
	}
	return process.Start(name, binary, filepath.Join(s.dir, name+".log"), args...)
}

// saveEndpoints makes all endpoints known through the API.
func (s *site) saveEndpoints(ctx context.Context, r *receivers) error {
	var specs []api.EndpointSpec
	for i, id := range s.dead {
		specs = append(specs, api.EndpointSpec{ID: id, URL: r.dead[i%len(r.dead)] + id})
	}
	for _, id := range append(append([]string{}, s.near...), s.apart...) {
		specs = append(specs, api.EndpointSpec{ID: id, URL: r.healthy + id})
	}
	return process.SaveEndpoints(ctx, s.api, s.token, savers, specs)
}

// savers is how many endpoints are saved at a time.
const savers = 128
