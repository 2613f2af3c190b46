// Package api is the HTTP API: events in, endpoints managed, deliveries looked up.
//
//	POST   /v1/deliveries                      hand over an event          producer
//	GET    /v1/deliveries/{id}                 what became of it           producer
//	GET    /v1/endpoints                       list                        operator
//	POST   /v1/endpoints                       create                      operator
//	GET    /v1/endpoints/{id}                  read                        operator
//	PUT    /v1/endpoints/{id}                  create or replace           operator
//	DELETE /v1/endpoints/{id}                  delete                      operator
//	POST   /v1/endpoints/{id}/enable           attempt deliveries again    operator
//	POST   /v1/endpoints/{id}/disable          stop attempting them        operator
//	POST   /v1/endpoints/{id}/reset-breaker    the receiver is well again  operator
//	POST   /v1/endpoints/{id}/rotate-secret    new signing secret          operator
//	GET    /openapi.yaml, /openapi.json        all of this, in OpenAPI 3.1 anybody
//
// # Sending
//
// A 2xx is given only after the event is on all in-sync replicas of the events topic, and nothing is answered from
// memory: the log's order decides who owns an idempotency key, and any node serves any call. So an event is produced
// first and its verdict awaited, which the owner of the unit writes to the idempotency topic:
//
//	client ──POST──> node ──produce──> events, partition p, offset o ──> arbiter
//	                  ^                                                    │
//	                  └────── tail of idempotency, partition p: "o is ..." ┘
//
// The tail may show the answer before the producer has learnt o, hence [Verdicts] keeps the latest answers of each
// partition. Answers to the caller:
//
//	202  accepted: this event owns its key, or "pending": it is durable, its verdict is late or was not waited for
//	200  the key is in use with the same content: the delivery_id is the owner's, with Idempotent-Replayed: true
//	422  the key is in use with other content: nothing is delivered
//	4xx  nothing was produced, the key is as free as before
//	429  a limit of the tenant; nothing was produced
//	503  not durable as far as is known, or nothing was produced: too much at once, or the processors are too far
//	     behind; send again with the same key (Retry-After says when)
//
// The key's scope is the endpoint, and an endpoint belongs to one tenant: two tenants never share a key.
//
// # How much
//
// Each bound is on this process alone; nodes share nothing:
//
//	requests in progress   MaxConcurrent, and of one tenant TenantLimits.Concurrent: a tenant that fills its own leaves
//	                       room for the others
//	bytes of bodies        MaxBufferedBytes, and of one tenant the same share
//	sends per second       of one tenant: a token bucket, asked before the body is read and charged before the produce
//	under way to Kafka     the producer's own bound (kgo.MaxBufferedBytes)
//	events that wait       MaxLag of the endpoint's partition, by a reading made in the background; what is not known
//	                       refuses nobody
//
// A look-up reads the topics for what this process has not seen: see search.go for how it does without an index.
//
// # Errors
//
// All errors are RFC 9457 problem documents; their type is "urn:barnabas:problem:" and a code from the closed set in
// problem.go, which is a metric label too.
//
// # Who may
//
// Bearer keys, configured as SHA-256 hashes, each with a tenant and a role. What belongs to another tenant does not
// exist for the caller: 404. Without any key the API serves loopback only, and only requests that name a loopback
// host, so that no web page can reach it by rebinding a name.
package api
