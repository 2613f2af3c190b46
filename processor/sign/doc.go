// Package sign makes and checks Standard Webhooks signatures (https://www.standardwebhooks.com): HMAC-SHA256
// over "id.timestamp.body", with every active key, in the header webhook-signature.
//
// It is pure: it takes the time, holds no state, and never prints a key. Bytes are signed as they are; nothing
// here parses, trims or re-encodes a body.
package sign
