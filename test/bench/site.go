package bench

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/test/process"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// site is one installation: topics, group, configuration, endpoints and processes of its own, for one measurement.
type site struct {
	run       *run
	dir       string
	config    string // path
	token     string // of an admin
	catalogue topics.Catalogue
	nodes     []*node
	set       []string // settings beside the run's
}

// node is one process of a site.
type node struct {
	*process.Process
	metrics string    // address of its operators' listener
	api     string    // address, of an API
	started time.Time // just before it was
}

// newSite writes the configuration, with the defaults but for what loopback needs, lets an API process make the topics,
// and saves the endpoints through it. The process is ended before anything is measured.
func (m *run) newSite(ctx context.Context, endpoints ...api.EndpointSpec) (s *site, err error) {
	m.sites++
	name := fmt.Sprintf("bench-%03d", m.sites)
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	s = &site{
		run: m, dir: filepath.Join(m.dir, name), token: rand.Text(),
		catalogue: topics.Catalogue{Prefix: name + ".", Partitions: m.Partitions, Tiers: topics.DefaultCatalogue().Tiers},
	}
	s.config = filepath.Join(s.dir, "barnabas.yaml")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	config := fmt.Sprintf(`kafka: {brokers: [%q]}
topics: {prefix: %q, partitions: %d, replication: 1, create: true}
processor: {group: %s}
egress: {allow_loopback: true, allow_http: true}
api: {keys: ["bench:admin::%x"]}
metrics: {pprof: true}
endpoints: {secret_key: %q}
`, m.broker.Addr(), s.catalogue.Prefix, m.Partitions, name, sha256.Sum256([]byte(s.token)), base64.StdEncoding.EncodeToString(key[:]))
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	begun := s // an error's return has none
	defer func() {
		if err != nil {
			err = errors.Join(err, begun.close(context.WithoutCancel(ctx)))
		}
	}()
	setting, err := s.start("api", "setting-up")
	if err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx, setting); err != nil {
		return nil, err
	}
	if err := process.SaveEndpoints(ctx, setting.api, s.token, savers, endpoints); err != nil {
		return nil, err
	}
	_, err = setting.Terminate()
	return s, err
}

// start runs the binary with the given roles.
func (s *site) start(roles, name string) (*node, error) {
	n := &node{}
	var err error
	if n.metrics, err = process.FreeAddr(s.run.taken); err != nil {
		return nil, err
	}
	if n.api, err = process.FreeAddr(s.run.taken); err != nil {
		return nil, err
	}
	own := filepath.Join(s.dir, name)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	args := []string{
		"serve", "--config", s.config, "--roles", roles, "--set", "metrics.listen=" + n.metrics, "--set", "api.listen=" + n.api,
	}
	for _, one := range append(append([]string{}, s.set...), s.run.Set...) {
		args = append(args, "--set", strings.ReplaceAll(one, "{dir}", own))
	}
	n.started = time.Now()
	if n.Process, err = process.Start(name, s.run.Binary, filepath.Join(s.dir, name+".log"), args...); err != nil {
		return nil, err
	}
	s.nodes = append(s.nodes, n)
	return n, nil
}

// startPatience is how long a process may take until it is ready, with millions of records to read back.
const startPatience = 5 * time.Minute

func (s *site) awaitReady(ctx context.Context, nodes ...*node) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, n := range nodes {
		if err := n.AwaitReady(ctx, n.metrics); err != nil {
			return err
		}
	}
	return nil
}

// savers is how many endpoints are saved at a time.
const savers = 32

// endpoint is one whose receiver answers after a while; parallel > 0: not ordered, with so many requests at a time.
func (m *run) endpoint(id string, wait time.Duration, parallel int) api.EndpointSpec {
	spec := api.EndpointSpec{ID: id, URL: m.receiver.url(wait) + id}
	if parallel > 0 {
		spec.Order, spec.MaxInFlight = "parallel", parallel
	}
	return spec
}

// endpoints are n such, called ep-0 and so on.
func (m *run) endpoints(n int, wait time.Duration, parallel int) (specs []api.EndpointSpec) {
	for i := range n {
		specs = append(specs, m.endpoint(endpointID(i), wait, parallel))
	}
	return specs
}

func endpointID(i int) string { return fmt.Sprintf("ep-%d", i) }

// close kills what runs, which is nothing that is measured, and deletes topics and group.
func (s *site) close(ctx context.Context) error {
	var errs []error
	for _, n := range s.nodes {
		n.Wanted.Store(true)
		errs = append(errs, n.Kill())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// What is left of them would only cost the rounds to come disk and files; so a failure is said and no more.
	if _, err := s.run.admin.DeleteTopics(ctx, s.catalogue.All()...); err != nil {
		s.run.say("topics of %s are not deleted: %v", s.catalogue.Prefix, err)
	}
	return errors.Join(errs...)
}
