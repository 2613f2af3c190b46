// Package kafka turns configuration into franz-go client options: addresses,
// TLS and mTLS, SASL, time limits and a log that does not flood. It holds no
// client and knows no topic; each user adds its own producer, consumer or group
// options.
//
// Credentials that can be renewed are read when they are used: the client
// certificate at each handshake and a password file at each authentication, so
// that a rotated file is picked up without a restart.
//
// franz-go retries and reconnects by itself, with a jittered back-off of 250 ms
// to 5 s. Its log goes through obs.Quiet, so a broker that is away for an hour
// is a few lines per minute, and its info lines are logged at debug.
package kafka
