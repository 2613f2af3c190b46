package endpoint_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

func TestRegistry_PutIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	c := cluster(t, 4)
	table := ready(t, c, keyA)
	r := registry(t, c, table)

	saved, err := r.Put(t.Context(), "acme", endpoint.Settings{ID: "e1", URL: "https://h.example/a%2Fb?q=1"})
	require.NoError(t, err)
	require.True(t, saved.Created)
	key, err := sign.ParseSecret(saved.Secret.Reveal())
	require.NoError(t, err, "a secret is minted")
	ep, ok := table.Get("e1")
	require.True(t, ok, "the own write is seen")
	require.Equal(t, "https://h.example/a%2Fb?q=1", ep.URL, "exactly as given (C-202)")
	require.Equal(t, [][]byte{key}, ep.ActiveKeys(time.Now()))
	require.Equal(t, schemas.EndpointEnabled, ep.State)
	require.Equal(t, schemas.OrderOrdered, ep.Order)
	require.Equal(t, "acme", ep.Tenant)

	// Replacing keeps secrets, state and age, and nothing else.
	_, err = r.SetState(t.Context(), "acme", "e1", schemas.EndpointDisabled, "maintenance")
	require.NoError(t, err)
	again, err := r.Put(t.Context(), "acme", endpoint.Settings{
		ID: "e1", URL: "https://i.example/", Description: "orders", Order: schemas.OrderParallel, MaxInFlight: 7, RatePerSecond: 2.5,
		Timeout: 20 * time.Second, PermanentStatuses: []int{404, 422}, RetryCaps: []time.Duration{time.Second, time.Minute},
		Headers: []schemas.Header{{Key: "Authorization", Value: []byte("Basic Zm9v")}},
	})
	require.NoError(t, err)
	require.False(t, again.Created)
	require.Empty(t, again.Secret, "an old secret is not shown again")
	ep2, _ := table.Get("e1")
	require.Equal(t, ep.Secrets, ep2.Secrets)
	require.Equal(t, schemas.EndpointDisabled, ep2.State)
	require.Equal(t, "maintenance", ep2.DisabledReason)
	require.True(t, ep2.CreatedAt.Equal(ep.CreatedAt))
	require.True(t, ep2.UpdatedAt.After(ep.UpdatedAt))
	require.Equal(t, "Basic Zm9v", string(ep2.Headers[0].Value))
	require.Equal(t, []time.Duration{time.Second, time.Minute}, ep2.RetryCaps)

	require.NoError(t, r.Delete(t.Context(), "acme", "e1"))
	require.True(t, table.Deleted("e1"))
	require.ErrorIs(t, r.Delete(t.Context(), "acme", "e1"), endpoint.ErrNotFound)

	minted, err := r.Put(t.Context(), "acme", endpoint.Settings{URL: "https://h.example/"})
	require.NoError(t, err)
	require.Regexp(t, `^ep_[a-z2-7]{26}$`, minted.Endpoint.ID)
	_, err = r.Put(t.Context(), "acme", endpoint.Settings{ID: minted.Endpoint.ID, URL: "https://h.example/", MustBeNew: true})
	require.ErrorIs(t, err, endpoint.ErrIDTaken)
}

// C-007: what belongs to another tenant is not there.
func TestRegistry_TenantsDoNotMeet(t *testing.T) {
	t.Parallel()
	c := cluster(t, 2)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	ctx := t.Context()
	_, err := r.Put(ctx, "acme", endpoint.Settings{ID: "e1", URL: "https://h.example/"})
	require.NoError(t, err)
	before, _ := table.Get("e1")

	_, err = r.Get("globex", "e1")
	require.ErrorIs(t, err, endpoint.ErrNotFound)
	_, err = r.SetState(ctx, "globex", "e1", schemas.EndpointDisabled, "")
	require.ErrorIs(t, err, endpoint.ErrNotFound)
	_, err = r.RotateSecret(ctx, "globex", "e1", endpoint.Rotation{})
	require.ErrorIs(t, err, endpoint.ErrNotFound)
	require.ErrorIs(t, r.Delete(ctx, "globex", "e1"), endpoint.ErrNotFound)
	_, err = r.Put(ctx, "globex", endpoint.Settings{ID: "e1", URL: "https://evil.example/"})
	require.ErrorIs(t, err, endpoint.ErrIDTaken)
	_, err = r.Put(ctx, "globex", endpoint.Settings{ID: "e2", Tenant: "acme", URL: "https://evil.example/"})
	require.ErrorContains(t, err, "tenant")
	_, err = r.Put(ctx, "", endpoint.Settings{ID: "e1", Tenant: "globex", URL: "https://evil.example/"})
	require.ErrorIs(t, err, endpoint.ErrIDTaken, "an owner never changes, not even by an admin")
	require.Empty(t, r.List("globex", "", 10))

	after, _ := table.Get("e1")
	require.Same(t, before, after)
	for _, scope := range []string{"acme", ""} {
		_, err = r.Get(scope, "e1")
		require.NoError(t, err)
		require.Len(t, r.List(scope, "", 10), 1)
	}
	// The same URL of two tenants is two endpoints.
	require.NotEqual(t, endpoint.IDForURL("acme", "https://h.example/"), endpoint.IDForURL("globex", "https://h.example/"))
}

// Everything is judged when it is saved: here and not at the first delivery.
func TestRegistry_RefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	const ok = "https://h.example/"
	header := func(name, value string) endpoint.Settings {
		return endpoint.Settings{URL: ok, Headers: []schemas.Header{{Key: name, Value: []byte(value)}}}
	}
	cases := map[string]struct {
		s     endpoint.Settings
		field string
	}{
		"no URL":            {endpoint.Settings{}, "url"},
		"id with a slash":   {endpoint.Settings{ID: "a/b", URL: ok}, "id"},
		"id of dots":        {endpoint.Settings{ID: "..", URL: ok}, "id"},
		"long id":           {endpoint.Settings{ID: strings.Repeat("a", 129), URL: ok}, "id"},
		"tenant":            {endpoint.Settings{Tenant: "a b", URL: ok}, "tenant"},
		"long URL":          {endpoint.Settings{URL: ok + strings.Repeat("a", endpoint.MaxURLBytes)}, "url"},
		"long description":  {endpoint.Settings{URL: ok, Description: strings.Repeat("a", 1025)}, "description"},
		"control character": {endpoint.Settings{URL: ok, Description: "a\x1b[31m"}, "description"},
		"not UTF-8":         {endpoint.Settings{URL: ok, Description: "\xff"}, "description"},
		"state":             {endpoint.Settings{URL: ok, State: "off"}, "state"},
		"order":             {endpoint.Settings{URL: ok, Order: "fifo"}, "order"},
		"in flight -1":      {endpoint.Settings{URL: ok, MaxInFlight: -1}, "max_in_flight"},
		"in flight 1001":    {endpoint.Settings{URL: ok, MaxInFlight: 1001}, "max_in_flight"},
		"rate -1":           {endpoint.Settings{URL: ok, RatePerSecond: -1}, "rate_per_second"},
		"rate NaN":          {endpoint.Settings{URL: ok, RatePerSecond: math.NaN()}, "rate_per_second"},
		"rate Inf":          {endpoint.Settings{URL: ok, RatePerSecond: math.Inf(1)}, "rate_per_second"},
		"timeout":           {endpoint.Settings{URL: ok, Timeout: 30*time.Second + 1}, "timeout"},
		"negative timeout":  {endpoint.Settings{URL: ok, Timeout: -1}, "timeout"},
		"permanent 200":     {endpoint.Settings{URL: ok, PermanentStatuses: []int{404, 200}}, "permanent_statuses"},
		"permanent 600":     {endpoint.Settings{URL: ok, PermanentStatuses: []int{600}}, "permanent_statuses"},
		"many permanent":    {endpoint.Settings{URL: ok, PermanentStatuses: slices.Repeat([]int{404}, 65)}, "permanent_statuses"},
		"wait of 0":         {endpoint.Settings{URL: ok, RetryCaps: []time.Duration{0}}, "retry_caps"},
		"wait of 25 h":      {endpoint.Settings{URL: ok, RetryCaps: []time.Duration{25 * time.Hour}}, "retry_caps"},
		"17 waits":          {endpoint.Settings{URL: ok, RetryCaps: slices.Repeat([]time.Duration{time.Second}, 17)}, "retry_caps"},
		"short secret":      {endpoint.Settings{URL: ok, Secret: "whsec_AAAA"}, "secret"}, // C-032
		// C-190
		"header CRLF":           {header("X-A", "PLANTED\r\nX-B: c"), "headers"},
		"header NUL":            {header("X-A", "a\x00"), "headers"},
		"header space":          {header("X-A", " a"), "headers"},
		"header non-ASCII":      {header("X-A", "ä"), "headers"},
		"header of 100 kB":      {header("X-A", strings.Repeat("a", 100_000)), "headers"},
		"header name empty":     {header("", "a"), "headers"},
		"header name space":     {header("X A", "a"), "headers"},
		"header name colon":     {header("X:A", "a"), "headers"},
		"header name long":      {header(strings.Repeat("X", 1000), "a"), "headers"},
		"a thousand of headers": {endpoint.Settings{URL: ok, Headers: make([]schemas.Header, 1000)}, "headers"},
		// C-191
		"header webhook-id": {header("webhook-id", "a"), "headers"},
		"header signature":  {header("Webhook-Signature", "a"), "headers"},
		"header host":       {header("Host", "a"), "headers"},
		"header te":         {header("te", "a"), "headers"},
		"header length":     {header("content-length", "1"), "headers"},
		"header encoding":   {header("Transfer-Encoding", "chunked"), "headers"},
	}
	// C-160, C-169, C-171, C-175, C-195
	for _, u := range []string{
		"http://h.example/", "ftp://h.example/", "javascript:alert(1)", "//h.example/", "h.example", "https://", "https://:443/",
		"https://127.0.0.1/", "https://127.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://169.254.169.254/latest",
		"https://10.0.0.1/", "https://LOCALHOST./", "https://metadata.google.internal/", "https://h.example:0/", "https://h.example:99999/",
		"https://h.example\\@127.0.0.1/", "https://h.example/\tx", "https://h.example/#f",
		"https://user@h.example/", "https://user:PLANTED@h.example/", "https://user:PLAN%40TED@h.example/",
	} {
		cases["URL "+u] = struct {
			s     endpoint.Settings
			field string
		}{endpoint.Settings{URL: u}, "url"}
	}
	for name, tc := range cases {
		_, err := r.Put(t.Context(), "", tc.s)
		var invalid *endpoint.InvalidError
		require.ErrorAs(t, err, &invalid, name)
		require.Len(t, invalid.Problems, 1, name)
		require.Equal(t, tc.field, invalid.Problems[0].Field, name)
		require.NotContains(t, err.Error(), "PLANTED", name)

		// The other way in (C-175): a raw URL.
		if tc.field == "url" && tc.s.URL != "" {
			_, err = r.EnsureForURL(t.Context(), "acme", tc.s.URL)
			require.ErrorAs(t, err, &invalid, name)
		}
	}
	_, err := r.Put(t.Context(), "", endpoint.Settings{ID: "a/b", URL: "x", MaxInFlight: -1})
	var invalid *endpoint.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Problems, 3, "all problems at once")
	require.Zero(t, c.PartitionInfo(topic, 0).HighWatermark, "nothing was written")
}

// C-032: the same secret in its permitted forms is the same key.
func TestRegistry_TakesASecret(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	text := sign.FormatSecret(key32('s'))
	saved, err := r.Put(t.Context(), "", endpoint.Settings{ID: "e1", URL: "https://h.example/", Secret: secret.String(text)})
	require.NoError(t, err)
	require.Equal(t, text, saved.Secret.Reveal())
	require.Equal(t, [][]byte{key32('s')}, saved.Endpoint.ActiveKeys(time.Now()))

	// Put with the same secret again is no rotation.
	again, err := r.Put(t.Context(), "", endpoint.Settings{
		ID: "e1", URL: "https://h.example/", Secret: secret.String(strings.TrimPrefix(text, "whsec_")),
	})
	require.NoError(t, err)
	require.Empty(t, again.Secret)
	require.Equal(t, saved.Endpoint.Secrets, again.Endpoint.Secrets)

	other, err := r.Put(t.Context(), "", endpoint.Settings{
		ID: "e1", URL: "https://h.example/", Secret: secret.String(sign.FormatSecret(key32('x'))),
	})
	require.NoError(t, err)
	require.Equal(t, [][]byte{key32('x')}, other.Endpoint.ActiveKeys(time.Now()))
}

// C-029: both sign in the overlap, newest first; how many is bounded; ended ones are dropped.
func TestRegistry_RotateSecret(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	ctx := t.Context()
	first, err := r.Put(ctx, "acme", endpoint.Settings{ID: "e1", URL: "https://h.example/"})
	require.NoError(t, err)
	keyOf := func(s secret.String) []byte {
		key, err := sign.ParseSecret(s.Reveal())
		require.NoError(t, err)
		return key
	}

	second, err := r.RotateSecret(ctx, "acme", "e1", endpoint.Rotation{Overlap: time.Hour})
	require.NoError(t, err)
	require.NotEqual(t, first.Secret.Reveal(), second.Secret.Reveal())
	now := second.Endpoint.UpdatedAt
	require.Equal(t, [][]byte{keyOf(second.Secret), keyOf(first.Secret)}, second.Endpoint.ActiveKeys(now))
	require.Equal(t, [][]byte{keyOf(second.Secret)}, second.Endpoint.ActiveKeys(now.Add(time.Hour)))

	// A longer overlap does not prolong what was to end sooner.
	third, err := r.RotateSecret(ctx, "acme", "e1", endpoint.Rotation{Overlap: 5 * time.Hour, Secret: secret.String(sign.FormatSecret(key32('t')))})
	require.NoError(t, err)
	require.Equal(t, [][]byte{key32('t'), keyOf(second.Secret)}, third.Endpoint.ActiveKeys(now.Add(2*time.Hour)))

	for range endpoint.MaxSecrets - 3 {
		_, err = r.RotateSecret(ctx, "acme", "e1", endpoint.Rotation{Overlap: time.Hour})
		require.NoError(t, err)
	}
	_, err = r.RotateSecret(ctx, "acme", "e1", endpoint.Rotation{Overlap: time.Hour})
	require.ErrorIs(t, err, endpoint.ErrTooManySecrets)

	last, err := r.RotateSecret(ctx, "acme", "e1", endpoint.Rotation{})
	require.NoError(t, err, "an overlap of 0 ends the others")
	require.Equal(t, [][]byte{keyOf(last.Secret)}, last.Endpoint.ActiveKeys(time.Now()))
	require.Len(t, last.Endpoint.Secrets, 1)

	for _, bad := range []endpoint.Rotation{{Overlap: -1}, {Overlap: endpoint.MaxOverlap + 1}, {Secret: "whsec_"}, {Secret: "v1,whsec_AAAA"}} {
		_, err = r.RotateSecret(ctx, "acme", "e1", bad)
		var invalid *endpoint.InvalidError
		require.ErrorAs(t, err, &invalid)
	}
	_, err = r.RotateSecret(ctx, "acme", "nobody", endpoint.Rotation{})
	require.ErrorIs(t, err, endpoint.ErrNotFound)

	// C-031: no topic holds a secret, in either form.
	all := string(dump(t, c))
	require.Contains(t, all, "https://h.example/", "the dump must hold the records")
	for _, s := range []secret.String{first.Secret, second.Secret, third.Secret, last.Secret} {
		require.NotContains(t, all, strings.TrimPrefix(s.Reveal(), "whsec_"))
		require.NotContains(t, all, string(keyOf(s)))
	}
}

func TestRegistry_EnsureForURL(t *testing.T) {
	t.Parallel()
	c := cluster(t, 4)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	const u = "https://h.example/hook?token=t"

	var wg sync.WaitGroup
	ids := make([]string, 10)
	for i := range ids {
		wg.Go(func() {
			ep, err := r.EnsureForURL(t.Context(), "acme", u)
			if err == nil {
				ids[i] = ep.ID
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, endpoint.IDForURL("acme", u), id)
	}
	require.Equal(t, 1, table.Count("acme"))
	other, err := r.EnsureForURL(t.Context(), "globex", u)
	require.NoError(t, err)
	require.NotEqual(t, ids[0], other.ID)

	// Given another URL by hand, it is no longer what the raw URL means.
	_, err = r.Put(t.Context(), "acme", endpoint.Settings{ID: ids[0], URL: "https://elsewhere.example/"})
	require.NoError(t, err)
	_, err = r.EnsureForURL(t.Context(), "acme", u)
	require.ErrorIs(t, err, endpoint.ErrIDTaken)

	// Deleted, it is registered anew.
	require.NoError(t, r.Delete(t.Context(), "acme", ids[0]))
	ep, err := r.EnsureForURL(t.Context(), "acme", u)
	require.NoError(t, err)
	require.Equal(t, u, ep.URL)
}

// On 410 only the state changes, and only if the endpoint is still the one that answered so.
func TestRegistry_Disable(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	ctx := t.Context()
	saved, err := r.Put(ctx, "acme", endpoint.Settings{ID: "e1", URL: "https://h.example/", Description: "d"})
	require.NoError(t, err)
	seen := saved.Endpoint

	require.NoError(t, r.Disable(ctx, seen, "gone"))
	ep, _ := table.Get("e1")
	require.False(t, ep.Enabled())
	require.Equal(t, "gone", ep.DisabledReason)
	require.Equal(t, "d", ep.Description)
	require.Equal(t, seen.Secrets, ep.Secrets)

	// A late answer to an attempt from before the operator's change disables nothing (C-104).
	_, err = r.Put(ctx, "acme", endpoint.Settings{ID: "e1", URL: "https://new.example/", State: schemas.EndpointEnabled})
	require.NoError(t, err)
	require.NoError(t, r.Disable(ctx, seen, "gone"))
	ep, _ = table.Get("e1")
	require.True(t, ep.Enabled())
	require.Equal(t, "https://new.example/", ep.URL)
	require.Empty(t, ep.DisabledReason)

	require.NoError(t, r.Delete(ctx, "acme", "e1"))
	require.NoError(t, r.Disable(ctx, ep, "gone"), "there is nothing to disable")
	_, ok := table.Get("e1")
	require.False(t, ok, "and it is not brought back")

	_, err = r.SetState(ctx, "", "e1", schemas.EndpointEnabled, "")
	require.ErrorIs(t, err, endpoint.ErrNotFound)
	_, err = r.SetState(ctx, "", "e1", "paused", "")
	require.ErrorContains(t, err, "state")
	_, err = r.SetState(ctx, "", "e1", schemas.EndpointDisabled, strings.Repeat("x", 257))
	require.ErrorContains(t, err, "reason")
}

// Two processes change the same endpoint at the same time, one the URL and one the state: both changes last, in the
// tables of both, whichever came first.
func TestRegistry_CrossingChangesAreNotLost(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	tables := [2]*endpoint.Table{ready(t, c, keyA), ready(t, c, keyA)}
	regs := [2]*endpoint.Registry{registry(t, c, tables[0]), registry(t, c, tables[1])}
	for i := range 40 {
		id := fmt.Sprintf("e%d", i)
		_, err := regs[0].Put(t.Context(), "acme", endpoint.Settings{ID: id, URL: "https://old.example/"})
		require.NoError(t, err)
		eventually(t, "both have it", func() bool { _, ok := tables[1].Get(id); return ok })

		var wg sync.WaitGroup
		var errs [2]error
		wg.Go(func() {
			_, errs[0] = regs[0].Put(t.Context(), "acme", endpoint.Settings{ID: id, URL: "https://new.example/"})
		})
		wg.Go(func() {
			_, errs[1] = regs[1].SetState(t.Context(), "acme", id, schemas.EndpointDisabled, "maintenance")
		})
		wg.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		for n, table := range tables {
			eventually(t, fmt.Sprintf("round %d: both changes in table %d", i, n), func() bool {
				ep, ok := table.Get(id)
				return ok && ep.URL == "https://new.example/" && !ep.Enabled()
			})
		}
	}
}

// Two tenants create the same id in two processes at the same time: one has it, the other is told, and its write does
// not last.
func TestRegistry_CrossingCreationsHaveOneWinner(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	tables := [2]*endpoint.Table{ready(t, c, keyA), ready(t, c, keyA)}
	regs := [2]*endpoint.Registry{registry(t, c, tables[0]), registry(t, c, tables[1])}
	tenants := [2]string{"acme", "globex"}
	for i := range 40 {
		id := fmt.Sprintf("e%d", i)
		var wg sync.WaitGroup
		var errs [2]error
		for n := range 2 {
			wg.Go(func() {
				_, errs[n] = regs[n].Put(t.Context(), tenants[n], endpoint.Settings{ID: id, URL: "https://" + tenants[n] + ".example/"})
			})
		}
		wg.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		require.NoError(t, errs[winner])
		require.ErrorIs(t, errs[1-winner], endpoint.ErrIDTaken)
		for _, table := range tables {
			eventually(t, "the winner's stands", func() bool {
				ep, ok := table.Get(id)
				return ok && ep.Tenant == tenants[winner] && ep.URL == "https://"+tenants[winner]+".example/"
			})
		}
	}
}

func TestRegistry_LockedIsNotOverwritten(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	cl := client(t, c)
	newer := record(t, "newer", "https://h.example/", nil)
	newer.Value = append([]byte{0xc3, 1}, make([]byte, 12)...) // a schema that is not known
	foreign := record(t, "foreign", "https://h.example/", nil)
	rec := &schemas.Endpoint{ID: "foreign", Tenant: "acme", URL: "https://h.example/", Secrets: []schemas.SealedSecret{
		{ID: "sec_1", Ciphertext: sealer(t, keyB).Seal("foreign", key32('k')), CreatedAt: time.Now()},
	}}
	var err error
	foreign.Value, err = schemas.EncodeEndpoint(rec)
	require.NoError(t, err)
	produce(t, cl, newer, foreign)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	ctx := t.Context()

	for _, id := range []string{"newer", "foreign"} {
		_, err = r.Put(ctx, "", endpoint.Settings{ID: id, URL: "https://h.example/"})
		require.ErrorIs(t, err, endpoint.ErrLocked, id)
		_, err = r.RotateSecret(ctx, "", id, endpoint.Rotation{Overlap: time.Hour})
		require.ErrorIs(t, err, endpoint.ErrLocked, id)
	}
	_, err = r.SetState(ctx, "", "newer", schemas.EndpointDisabled, "")
	require.ErrorIs(t, err, endpoint.ErrLocked)
	// The state has nothing to do with the secrets, and those can be replaced by ones that are known.
	ep, err := r.SetState(ctx, "", "foreign", schemas.EndpointDisabled, "")
	require.NoError(t, err)
	require.Equal(t, rec.Secrets[0].Ciphertext, ep.Secrets[0].Ciphertext)
	saved, err := r.RotateSecret(ctx, "", "foreign", endpoint.Rotation{})
	require.NoError(t, err)
	require.NoError(t, saved.Endpoint.Locked)
}

func TestRegistry_MaxEndpoints(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table := ready(t, c, keyA)
	o := options(t, c, table)
	o.MaxEndpoints, o.MaxPerTenant = 3, 2
	r := endpoint.NewRegistry(o)
	put := func(tenant, id string) error {
		_, err := r.Put(t.Context(), tenant, endpoint.Settings{ID: id, URL: "https://h.example/"})
		return err
	}
	require.NoError(t, put("acme", "a1"))
	require.NoError(t, put("acme", "a2"))
	require.ErrorIs(t, put("acme", "a3"), endpoint.ErrTooManyEndpoints, "a tenant's limit")
	_, err := r.EnsureForURL(t.Context(), "acme", "https://h.example/")
	require.ErrorIs(t, err, endpoint.ErrTooManyEndpoints, "raw URLs count")
	require.NoError(t, put("globex", "g1"))
	require.ErrorIs(t, put("globex", "g2"), endpoint.ErrTooManyEndpoints, "the deployment's limit")
	require.NoError(t, put("acme", "a1"), "a present one may be replaced")
	require.NoError(t, r.Delete(t.Context(), "acme", "a2"))
	require.NoError(t, put("acme", "a3"), "room is given back")
}

// With the broker gone, a change ends within its time with an error that says so (C-008's sibling).
func TestRegistry_BrokerGone(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table := ready(t, c, keyA)
	o := options(t, c, table)
	o.WriteTimeout = 300 * time.Millisecond
	r := endpoint.NewRegistry(o)
	_, err := r.Put(t.Context(), "", endpoint.Settings{ID: "e0", URL: "https://h.example/"})
	require.NoError(t, err)
	c.Close()
	_, err = r.Put(t.Context(), "", endpoint.Settings{ID: "e1", URL: "https://h.example/"})
	require.ErrorIs(t, err, endpoint.ErrUnavailable)
	require.ErrorIs(t, r.Delete(t.Context(), "", "e0"), endpoint.ErrUnavailable)
	_, ok := table.Get("e0")
	require.True(t, ok, "the table keeps what it has")
}

// C-202: what a strict hand-made pattern would refuse, and must be taken.
func TestRegistry_TakesUnusualURLs(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table := ready(t, c, keyA)
	r := registry(t, c, table)
	for _, u := range []string{
		"https://h.example", "https://h.example:8443/x", "https://xn--mnchen-3ya.example/", "https://a.b.c.d.technology/p;a=1,2",
		"https://[2606:4700::1111]:443/", "https://1.1.1.1/", "https://h.example/a%2Fb%20c", "https://h.example/?a=b&c=%2B+d&e",
		"https://h.example/?" + strings.Repeat("q", 2000), "https://h_x.example/~u/(x)!$&'*",
	} {
		ep, err := r.EnsureForURL(t.Context(), "acme", u)
		require.NoError(t, err, u)
		require.Equal(t, u, ep.URL)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ep.URL, nil)
		require.NoError(t, err)
		require.Equal(t, u, req.URL.String())
	}
}
