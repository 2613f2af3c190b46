// Package sign makes and checks Standard Webhooks signatures.
package sign
